#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# bootstrap's functions: which StarPU is fetched, from where, which of those kept is taken, and the packages that other systems are told of.

[[ -r /etc/os-release ]] || exit 77 # it is part of a build's name
# shellcheck source=bootstrap disable=SC2154
source "$top_srcdir/bootstrap"
# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# same NAME EXPECTED FOUND
same()
{
    [[ $2 == "$3" ]] && return
    printf '%s: expected\n%s\nfound\n%s\n\n' "$@"
    failed=1
}

toolkit=
toolkit_version=
starpu_pinned=1.4.10+dfsg-2

# ---- which version ----------------------------------------------------------------------------------------------------------------

same 'the pinned one first' $'1.4.10+dfsg-2\n1.4.12-1\n1.4.9+dfsg-1' "$(in_order 1.4.9+dfsg-1 1.4.12-1 1.4.10+dfsg-2 1.4.12-1)"
same 'the newest where it is gone' $'1.4.12-1\n1.4.10+dfsg-3\n1.4.9+dfsg-1' "$(in_order 1.4.9+dfsg-1 1.4.10+dfsg-3 1.4.12-1)"
same 'another series' 1.4.5+dfsg-2 "$(in_order 1.3.10+dfsg-1 1.4.5+dfsg-2 1.5.0-1 11.4.1-1)"
same 'none' '' "$(in_order '')"

# ---- fetching, from a mirror that holds the versions in $mirror ---------------------------------------------------------------------

debian_mirror()
{
    echo http://mirror
}

apt-cache()
{
    printf 'Package: starpu\nVersion: %s\n\n' $mirror
}

apt-get()
{
    local wanted=${*: -1}
    [[ $wanted == update ]] || echo "${wanted#starpu=}" >"starpu_${wanted#starpu=}.dsc"
}

dpkg-source()
{
    mkdir "${*: -1}"
}

# fetch VERSION ...: from a mirror that holds these; prints the version, Debian's name of it and "unpacked".
fetch()
{
    mirror=$*
    rm -rf "$folder/build"
    mkdir "$folder/build"
    fetch_starpu "$folder/build" >"$folder/said" || echo "status $?"
    cat "$folder/build/version" "$folder/build/package" 2>/dev/null
    [[ ! -d $folder/build/source ]] || echo unpacked
}

starpu_pinned_sum=$(echo 1.4.10+dfsg-2 | sha256sum | cut -d ' ' -f 1)
same 'it is there' $'1.4.10\n1.4.10+dfsg-2\nunpacked' "$(fetch 1.4.12-1 1.4.10+dfsg-2 1.4.7-1)"
same 'it is gone' $'1.4.12\n1.4.12-1\nunpacked' "$(fetch 1.4.7-1 1.4.12-1)"
same 'no StarPU of the series' 'status 1' "$(fetch 1.3.10-1)"
starpu_pinned_sum=${starpu_pinned_sum//[0-4]/5}
same 'it is not what it was' 'status 1' "$(fetch 1.4.12-1 1.4.10+dfsg-2)"
grep -q 'another checksum' "$folder/said" || same 'what is said of the checksum' 'another checksum' "$(cat "$folder/said")"
same 'another one has no checksum' $'1.4.12\n1.4.12-1\nunpacked' "$(fetch 1.4.12-1)"

# ---- sources that were fetched before ---------------------------------------------------------------------------------------------

# package FOLDER VERSION: a source package whose source has the files `data` and `patched`.
package()
{
    local upstream=${2%-*} work=$folder/package
    rm -rf "$work"
    mkdir -p "$work/starpu-$upstream" "$work/debian/patches" "$1"
    echo data >"$work/starpu-$upstream/data"
    echo before >"$work/starpu-$upstream/patched"
    printf '%s\n' '# the only one' mend >"$work/debian/patches/series"
    printf '%s\n' '--- a/patched' '+++ b/patched' '@@ -1 +1 @@' -before +after >"$work/debian/patches/mend"
    tar -C "$work" -czf "$1/starpu_$upstream.orig.tar.gz" "starpu-$upstream"
    tar -C "$work" -cJf "$1/starpu_$2.debian.tar.xz" debian
    (cd "$1" && {
        echo "Checksums-Sha256:"
        for file in "starpu_$upstream.orig.tar.gz" "starpu_$2.debian.tar.xz"; do
            echo " $(sha256sum "$file" | cut -d ' ' -f 1) $(stat -c %s "$file") $file"
        done
        echo "Files:"
    } >"starpu_$2.dsc")
}

# offline: fetch_starpu from $folder/fetched, without dpkg-source.
offline()
(
    rm -rf "$folder/build"
    mkdir "$folder/build"
    type()
    {
        [[ $1 != dpkg-source ]] && builtin type "$@"
    }
    sources=$folder/fetched
    fetch_starpu "$folder/build" >"$folder/said" 2>&1 || { grep -oE 'has no StarPU|another checksum|FAILED' "$folder/said"; return; }
    cat "$folder/build/version" "$folder/build/source"/{data,patched} 2>/dev/null
)

mkdir "$folder/fetched"
same 'nothing was fetched' 'has no StarPU' "$(offline)"
package "$folder/fetched" 1.4.9+dfsg-1
same 'another version was fetched' $'1.4.9\ndata\nafter' "$(offline)"
package "$folder/fetched" 1.4.10+dfsg-2
same 'a forged one was fetched' 'another checksum' "$(offline)"
starpu_pinned_sum=$(sha256sum "$folder/fetched/starpu_1.4.10+dfsg-2.dsc" | cut -d ' ' -f 1)
same 'the pinned one was fetched' $'1.4.10\ndata\nafter' "$(offline)"
echo >>"$folder/fetched/starpu_1.4.10+dfsg.orig.tar.gz"
same 'a damaged one was fetched' FAILED "$(offline)"

# ---- other systems ----------------------------------------------------------------------------------------------------------------

# told ID LIKE PACKAGE ...: what the administrator of such a system is told.
told()
{
    printf 'ID=%s\nID_LIKE="%s"\n' "$1" "$2" >"$folder/os-release"
    (os_release=$folder/os-release && how_to_install "${@:3}")
}

some=(gcc libxxhash-dev libfxt-dev)
same Debian 'apt-get install gcc libxxhash-dev libfxt-dev' "$(told debian '' "${some[@]}")"
same Ubuntu $'add-apt-repository universe\napt-get install gcc libxxhash-dev libfxt-dev' "$(told ubuntu debian "${some[@]}")"
same Rocky $'dnf install epel-release\ndnf install --enablerepo=crb gcc xxhash-devel' "$(told rocky 'rhel centos fedora' "${some[@]}" | head -n 2)"
same SUSE 'zypper install gcc xxhash-devel' "$(told opensuse-leap 'suse opensuse' "${some[@]}" | head -n 1)"
told sles suse "${some[@]}" | grep -q 'no package here' || same 'what is said of FxT' 'no package' "$(told sles suse "${some[@]}")"
for name in "${packages[@]}" "${starpu_packages[@]}" "${mpi_packages[@]}"; do
    other_names | grep -q "^$name " || same 'the table of names' "$name" nothing
    grep -qw -e "$name" "$top_srcdir/doc/guide/install.md" || same 'doc/guide/install.md' "$name" nothing
done

# ---- kept ones --------------------------------------------------------------------------------------------------------------------

export XDG_CACHE_HOME=$folder/cache

# keep VERSION ...: the cache holds builds of these; print the one that is taken.
keep()
{
    rm -rf "$XDG_CACHE_HOME"
    mkdir -p "$XDG_CACHE_HOME/starling"
    (($# == 0)) || mkdir "${@/%/-$(starpu_tag)}"
    starpu_kept
}

prefix=$XDG_CACHE_HOME/starling/starpu-
tag=$(starpu_tag)
same 'nothing is kept' '' "$(keep)"
same 'the pinned one is kept' "${prefix}1.4.10-$tag" "$(keep "${prefix}1.4.9" "${prefix}1.4.10" "${prefix}1.4.12")"
same 'another one is kept' "${prefix}1.4.12-$tag" "$(keep "${prefix}1.4.9" "${prefix}1.4.12")"
same 'its version' 1.4.12 "$(prefix_version "${prefix}1.4.12-$tag")"
exit $failed
