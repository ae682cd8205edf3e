#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Each header compiles alone, and twice in a row, as C; starling.h compiles with nothing but what is installed, as C and C++.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# compiles WHAT COMMAND ...: COMMAND reads a program from standard input.
compiles()
{
    local what=$1
    shift
    "$@" >"$folder/output" 2>&1 && return
    echo "$what does not compile alone:"
    cat "$folder/output"
    failed=1
}

# SL_CPPFLAGS and CC may hold several words.
for header in $(find "$top_srcdir"/{support,data,partition,tasks,codelets,runtime} "$top_srcdir"/tests/support/*.h -name '*.h'); do
    header=${header#"$top_srcdir"/}
    compiles "$header" ${CC} ${SL_CPPFLAGS} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -x c - \
        <<<"#include \"$header\"
#include \"$header\"
int sl_nothing;"
done

# As `make install` lays them out: SL_PUBLIC_HEADERS below their folders, starling.h beside these.
(cd "$top_srcdir" && tar cf - ${SL_PUBLIC_HEADERS}) | tar xf - -C "$folder" || exit 1
cp "$top_srcdir/runtime/starling.h" "$folder/" || exit 1
compiles "starling.h as C" ${CC} -I"$folder" -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -x c - \
    <<<'#include <starling.h>
int sl_nothing;'
((failed == 0)) || exit 1

if [[ $CXX == : ]]; then
    echo "there is no C++ compiler"
    exit 77
fi
compiles "starling.h as C++" ${CXX} -I"$folder" -std=c++11 -Wall -Wextra -Werror -fsyntax-only -x c++ - \
    <<<'#include <starling.h>
int sl_nothing;'
exit $failed
