#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# configure: a folder that --with-NAME=FOLDER names is the only one that is searched, for every dependency; an old
# StarPU is called too old; the summary names folders, not variables.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# A configured checkout would refuse to be configured elsewhere, so configure runs in a copy of the files that it reads.
cp -R "$top_srcdir/configure" "$top_srcdir/build-aux" . && mkdir support && cp "$top_srcdir/support/status.h" support &&
    chmod -R u+w . || exit 99 # the files of distcheck are read-only
unset PKG_CONFIG_PATH PKG_CONFIG_LIBDIR NVCC CONFIG_SITE MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CPPFLAGS LDFLAGS LIBS

# configured ARGUMENT ...: configure, without output files; what it says is in the file said.
configured()
{
    ./configure --no-create "$@" >said 2>&1
}

# ---- every dependency is asked for in a folder that has nothing, but one ----

names=$(./configure --help | sed -n 's/^ *--with-\([a-z0-9]*\)=\(PREFIX\|DIR\).*/\1/p')
(($(wc -w <<<"$names") >= 12)) || complain "configure --help: expected --with-NAME for 12 dependencies or more, found:" $names
mkdir -p empty good/include good/lib
cat >good/include/metis.h <<'END'
#define METIS_VER_MAJOR 7
#define METIS_VER_MINOR 8
#define IDXTYPEWIDTH 32
#define METIS_NOPTIONS 40
typedef int idx_t;
int METIS_SetDefaultOptions(idx_t *);
END
echo 'int METIS_SetDefaultOptions(int *options) { return *options; }' >metis.c
$CC ${CFLAGS:-} -shared -fPIC -o good/lib/libmetis.so metis.c || exit 99
arguments=()
for name in $names; do
    # the current folder by a name without a space, at which compilers' options would be split
    [[ $name == metis ]] && arguments+=(--with-metis=/proc/self/cwd/good) || arguments+=("--with-$name=$folder/empty")
done
! configured --cache-file=cache "${arguments[@]}" || complain "configure took dependencies from another folder than --with-NAME=FOLDER names: $(cat said)"
grep -q '^checking for METIS\.\.\. found$' said || complain "configure did not find METIS in the folder of --with-metis: $(cat said)"
error=$(grep '^configure: error: ' said)
for name in $names; do
    [[ $name == metis || "$error " == *" --with-$name=$folder/empty"[\ .]* ]] ||
        complain "--with-$name=FOLDER: expected an error, as FOLDER has no $name; found: $(cat said)"
done
[[ $error != *metis* ]] || complain "--with-metis: $error"

# ---- an old StarPU ----

mkdir old
printf 'Name: StarPU\nDescription: old\nVersion: 1.3.10\n' >old/starpu-1.3.pc
! PKG_CONFIG_LIBDIR=$folder/old configured --cache-file=cache || complain "configure took StarPU 1.3: $(cat said)"
grep -q '^checking for StarPU\.\.\. too old: 1\.3\.10; \./bootstrap builds 1\.4$' said || complain "StarPU 1.3 alone: $(cat said)"

# ---- as this build was configured ----

eval "arguments=($("$top_builddir/config.status" --config))"
mkdir lacks && printf '#!/bin/sh\ncase $* in *numpy*) exit 1 ;; esac\nexec /usr/bin/python3 "$@"\n' >lacks/python3 &&
    chmod +x lacks/python3 && ln -s python3 lacks/python # first in PATH, without numpy
if PATH=$folder/lacks:$PATH configured "${arguments[@]}" --srcdir=. --prefix="$folder/prefix"; then
    grep -q ' StarPU  *1\.4' said || complain "the summary names no StarPU: $(cat said)"
    ! grep -A 40 '^Starling ' said | grep -F '$' || complain "the summary has variables: $(cat said)"
    ! /usr/bin/python3 -c 'import numpy' 2>/dev/null || [[ " ${arguments[*]}" == *\ --with*-python* ]] ||
        grep -q 'checking whether /usr/bin/python3 version' said || complain "configure took a Python without numpy: $(cat said)"
    ! grep -q ' Python  *3' said || grep -q " starling_gnn goes into $folder/prefix/" said || complain "the summary's folder of the Python package: $(cat said)"
else
    complain "configure failed: $(cat said)"
fi
exit $failed
