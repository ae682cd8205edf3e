#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# make install: documents are there, run paths lead other users to all libraries (or make install warns), somebody
# else's StarPU is not overwritten, and make uninstall leaves no file. As root, another user trains with the installed
# programs while the builder's home and the build tree are hidden.

export TMPDIR=/tmp # another user goes there
umask 022 # and reads what is installed
# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
chmod 755 "$folder"
builder=${HOME:-/root}

# setting NAME: what configure substituted for it.
setting()
{
    sed -n "s/^S\[\"$1\"\]=\"\(.*\)\"/\1/p" "$top_builddir/config.status"
}

# install_into FOLDER [TARGET]: make TARGET there; what make says is in $folder/said.
install_into()
{
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -j 2 -C "$top_builddir" "${2:-install}" DESTDIR="$1" >"$folder/said" 2>&1
}

# run_paths FILE: one entry a line.
run_paths()
{
    readelf -d "$1" 2>/dev/null | sed -n 's/.*(R.*PATH).*\[\(.*\)\].*/\1/p' | tr : '\n'
}

bundled=$(setting SL_BUNDLED_STARPU)
starpu=$(setting SL_STARPU_PREFIX)
root=$folder/root
install_into "$root" || { complain "make install failed: $(cat "$folder/said")"; exit 1; }
bin=$(dirname "$(find "$root" -name coop_sage -path '*/bin/*')")
lib=$(dirname "$(find "$root" -name libstarling.so)")

# ---- documents: every link of an installed page leads to an installed file ----

documents=$(dirname "$(find "$root" -name COPYING -path '*/doc/starling/*')")
for document in COPYING README.md doc/guide/install.md doc/guide/concepts.svg doc/epoch-times.svg; do
    [[ -s $documents/$document ]] || complain "$document is not installed"
done
while IFS=: read -r page link; do
    link=${link#](} link=${link%[)#]*} link=${link%#*}
    [[ -z $link || $link == http* || -e $(dirname "$page")/$link ]] || complain "$page: $link is not installed"
done < <(grep -roE '\]\([^)# ]+[)#]' "$documents" --include='*.md')

# ---- the page on datasets is the guide's ----

page=$(find "$root" -name 'starling-data.5*')
[[ $page == */man5/* ]] || complain "the man page starling-data(5) is not installed: '$page'"
for word in '^.TH STARLING-DATA 5' '^.SH NAME' edge_index edges.csv 'num..node..list' '^.SH SEE ALSO'; do
    grep -Eq -- "$word" "$page" || complain "starling-data(5) does not have '$word'"
done

# ---- man pages: no warning, and examples fit a terminal of 80 columns, of which man indents them by 11 ----

n=0
while read -r page; do
    ((++n))
    name=$(basename "$page")
    wide=$(awk '/^\.nf/ { code = 1; next } /^\.fi/ { code = 0 }
        code { gsub(/\\&/, ""); gsub(/\\./, "x"); if (length > 69) print }' "$page")
    [[ -z $wide ]] || complain "$name: examples wider than 80 columns: $wide"
    warnings=$(! command -v man >/dev/null || man --warnings -l "$page" 2>&1 >/dev/null
        ! command -v mandoc >/dev/null || mandoc -T lint -W warning "$page" 2>&1)
    [[ -z $warnings ]] || complain "$name: $warnings"
done < <(find "$root" -path '*/man/man[15]/*' -type f)
((n == 4)) || complain "expected four man pages, found $n"

# ---- the Python package finds the library of its prefix ----

package=$(find "$root" -name starling_gnn -path '*/lib/*')
python=
for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import sys, numpy; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && python=$candidate && break
done
if [[ -n $package && -n $python ]]; then
    found=$(preload_sanitizer "$lib/libstarling.so" && cd / && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$package") LD_LIBRARY_PATH=${starpu:+$starpu/lib} \
        "$python" -c 'import starling_gnn; print(starling_gnn._library.lib._name)' 2>&1)
    [[ $(realpath "$found" 2>/dev/null) == "$(realpath "$lib/libstarling.so.1")" ]] || complain "starling_gnn loads: $found"
    found=$(preload_sanitizer "$lib/libstarling.so" && cd / && PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=${starpu:+$starpu/lib} \
        "$python" "$bin/starling" --version 2>&1)
    [[ $found == "starling $("$bin/coop_sage" --version | sed 's/[^0-9]*//')" ]] || complain "starling --version: $found"
fi

# ---- run paths ----

if [[ $bundled == no ]]; then
    for entry in $(run_paths "$bin/coop_sage"); do
        [[ $entry != "$builder"/* || $(setting prefix) == "$builder"/* ]] || grep -Fq "run path $entry (" "$folder/said" ||
            complain "make install did not warn of the run path $entry: $(cat "$folder/said")"
    done
else
    while IFS= read -r file; do
        for entry in $(run_paths "$file"); do
            case $entry/ in
            "$builder"/* | "$top_builddir"/* | "$starpu"/*) complain "${file#"$root"}: run path $entry" ;;
            esac
        done
    done < <(find "$root" -type f \( -path '*/bin/*' -o -name '*.so*' \))
    ! grep -q 'make install: warning' "$folder/said" || complain "make install warned: $(cat "$folder/said")"
    ! text=$(grep -rIlF -e "$starpu" "$root") || complain "these name the StarPU of the build: $text"

    # The libraries are found beside the programs.
    used=$(ldd "$bin/coop_sage" | sed -n 's/.*libstarpu-.* => \([^ ]*\).*/\1/p')
    [[ $(realpath "${used:-/}") == "$(realpath "$lib")"/*libstarpu* ]] || complain "coop_sage takes StarPU from: $used"
    ! ldd "$bin"/* "$lib"/*.so 2>/dev/null | grep 'not found' || complain "libraries are missing"
fi

# ---- another user ----

# As a new user, who sees neither the builder's home nor the build.
cat >"$folder/hidden" <<'END'
for place in "$@"; do
    ! [ -d "$place" ] || mount -t tmpfs -o mode=700 none "$place" || exit 77
done
cd /
run="exec setpriv --reuid=65534 --regid=65534 --clear-groups env -i HOME=$folder/user PATH=$bin:/usr/bin:/bin"
run="$run STARPU_WORKERS_NOBIND=1 CUDA_VISIBLE_DEVICES= bash -c"
$run 'ls "$0" >/dev/null 2>&1 && exit 70
      cd && starling_data generate --vertices 500 --edges 2000 --classes 4 --features 8 --out made &&
      coop_sage --dataset ./made --layers 2 --hidden 8 --epochs 1 --batch-size 50' "$1"
END
if [[ $bundled != no && $EUID -eq 0 && $builder == /?* ]] && unshare --mount true 2>/dev/null; then
    mkdir "$folder/user"
    chown 65534:65534 "$folder/user"
    export folder bin
    unshare --mount bash "$folder/hidden" "$builder" "$starpu" "$top_builddir" "$top_srcdir" \
        >"$folder/out" 2>&1
    status=$?
    case $status in
    0)
        grep -q '^epoch *1/1 ' "$folder/out" && ! grep -qF "[starpu]" "$folder/out" ||
            complain "another user's run printed: $(cat "$folder/out")"
        ;;
    77) echo "not run as another user: no mounts can be made here" ;;
    *) complain "another user's run ended with $status: $(cat "$folder/out")" ;;
    esac
else
    echo "not run as another user: that needs root, unshare and --enable-bundled-starpu"
fi

# ---- uninstall ----

install_into "$root" uninstall || complain "make uninstall failed: $(cat "$folder/said")"
left=$(find "$root" ! -type d)
[[ -z $left ]] || complain "make uninstall left: $left"

# ---- somebody else's StarPU ----

if [[ $bundled == yes ]]; then
    foreign=$lib/pkgconfig/starpu-1.4.pc
    mkdir -p "${foreign%/*}"
    echo theirs >"$foreign"
    ! install_into "$root" || complain "make install overwrote somebody else's StarPU"
    grep -q 'belongs to another StarPU' "$folder/said" || complain "make install said of somebody else's StarPU: $(cat "$folder/said")"
    [[ $(cat "$foreign") == theirs && ! -e $bin/coop_sage ]] || complain "somebody else's StarPU was there, and make install went on"
fi
exit $failed
