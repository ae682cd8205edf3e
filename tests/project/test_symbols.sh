#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Every global symbol of our objects begins with sl_, so that a program that links us statically cannot clash; the shared library
# exports what the installed headers declare as SL_API, and nothing else.
# Kernels that are compiled for several x86-64 levels are so with all of their parts.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# strangers NM-OPTION ... FILE: the defined global symbols without our prefix; __ and DW.ref are the compiler's and the
# sanitizers', and what CUDA sources instantiate of C++ headers has their namespaces (_ZN, _ZSt; _ZZN of variables in functions, _ZGV of their first use).
strangers()
{
    "$NM" --defined-only --extern-only --format=posix "$@" 2>/dev/null |
        awk 'NF >= 2 && $1 !~ /^(sl_|__|DW[.]ref[.]__|_ZNK?[0-9]|_ZNK?St|_ZSt|_ZT|_Z(GV)?ZN|_Z[0-9]+sl_|_init$|_fini$|_edata$|_end$|_etext$|_start$)/ { print $1 }' | sort -u
}

# expect_none WHAT NAMES
expect_none()
{
    if [[ -n $2 ]]; then
        echo "$1:" $2
        failed=1
    fi
}

[[ $NM != : ]] || { echo "there is no nm"; exit 77; }

# The check itself finds a stray function and a stray variable.
printf 'int stray_value = 1;\nint stray(void);\nint stray(void) { return 0; }\nint sl_ours;\n' >"$folder/stray.c"
${CC} -c "$folder/stray.c" -o "$folder/stray.o" || exit 99
[[ $(strangers "$folder/stray.o" | tr '\n' ' ') == "stray stray_value " ]] || expect_none "strangers overlooks" "one"

objects=$top_builddir/.libs/libstarling_core.a
[[ -f $objects ]] || objects=$top_builddir/libstarling_core.a
(($("$NM" "$objects" 2>/dev/null | grep -c ' T sl_') > 10)) || expect_none "no functions found in" "$objects"
expect_none "global symbols without sl_ in front" "$(strangers "$objects")"


library=$top_builddir/.libs/libstarling.so
if [[ ! -f $library ]]; then
    ((failed == 0)) || exit 1
    echo "there is no shared library"
    exit 77
fi
expect_none "exported symbols without sl_ in front" "$(strangers --dynamic "$library")"

"$NM" --defined-only --extern-only --dynamic --format=posix "$library" | cut -d ' ' -f 1 |
    grep -Ev '^(_init|_fini|_edata|_end|__bss_start)$' | sort -u >"$folder/exported"
# SL_PUBLIC_HEADERS are names below the sources.
(cd "$top_srcdir" && grep -hE '^SL_API ' ${SL_PUBLIC_HEADERS} runtime/starling.h) |
    sed -n 's/^[^()=]*[ *]\(sl_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$folder/declared"
(($(wc -l <"$folder/declared") > 5)) || expect_none "hardly any prototypes found in" "${SL_PUBLIC_HEADERS}"
expect_none "declared in an installed header, but not exported" "$(comm -23 "$folder/declared" "$folder/exported")"
expect_none "exported, but declared in no installed header" "$(comm -13 "$folder/declared" "$folder/exported")"

# Functions of the interface that return a status work in the C locale (support/decimal.h), so StarPU's files have no decimal commas.
without_locale()
{
    cd "$top_srcdir" && grep -hE '^SL_API enum sl_status ' ${SL_PUBLIC_HEADERS} runtime/starling.h | grep -oE 'sl_[a-z0-9_]*\(' | sort -u >"$folder/checked"
    cat */*.c */*/*.c | awk -v names="$(tr -d '(' <"$folder/checked" | tr '\n' ' ')" '
        BEGIN { n = split(names, list, " "); for (i = 1; i <= n; i++) wanted[list[i]] = 1 }
        /^[a-z].*\(/ { name = ""; if (match($0, /sl_[a-z0-9_]*\(/)) name = substr($0, RSTART, RLENGTH - 1) }
        /^{/ { if (name in wanted) { seen[name] = 1; getline; if ($1 != "SL_IN_C_LOCALE;") print name } }
        END { for (name in wanted) if (!(name in seen)) print name " (not found)" }'
}
expect_none "functions of the interface that do not begin with SL_IN_C_LOCALE" "$(without_locale)"

# Of a kernel in clones (SL_CLONES, support/real.h), a static function that it calls would be compiled for the lowest level alone.
# offer_heap may be, as it moves integers one by one. Only full optimisation puts functions into others.
lowest()
{
    objdump -d --no-show-raw-insn "$library" | awk '
        /^[0-9a-f]+ <.*>:$/ { clone = $2 ~ /[.]arch_x86_64_v[34]/; n += clone }
        clone && /call|jmp/ && match($0, /<[^>+]*>/) {
            name = substr($0, RSTART + 1, RLENGTH - 2)
            if (name !~ /^(sl_|offer_heap)|[.]arch_x86_64_v|@plt$/) print name
        }
        END { if (n < 10) print "(no clones)" }' | sort -u
}

# in_full: gcc, optimising, for x86-64.
in_full()
{
    [[ $(uname -m) == x86_64 ]] && grep -q '^SL_CFLAGS = -O3 ' "$top_builddir/Makefile" &&
        ! grep -q '^CFLAGS = .*-O[01]' "$top_builddir/Makefile" && ${CC} --version | grep -qi '^gcc'
}

if in_full && command -v objdump >/dev/null; then
    expect_none 'parts of kernels, to be SL_INLINE, that are compiled for the lowest level alone' "$(lowest)"
fi
exit $failed
