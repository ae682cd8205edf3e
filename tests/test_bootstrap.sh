#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# bootstrap's functions: which StarPU is fetched, and which of those kept is taken.

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
    # shellcheck disable=SC2086
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
