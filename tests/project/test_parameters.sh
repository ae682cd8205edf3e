#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# No function has more than 8 parameters: more want a struct. Kernels and their launchers, which take arrays and their sizes, are
# __global__ or end in _cpu or _cuda, and may have more.

set -u
layers=(support data partition tasks codelets runtime apps)

# functions ROOT: print FILE NAME PARAMETERS for each function, kernels apart, that the sources define or declare: what begins in the
# first column.
functions()
{
    (cd "$1" && find "${layers[@]}" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh') | while read -r file; do
        awk -v file="$file" '
            # The number of parameters of a list, what is inside parentheses and <> counting as one word.
            function count(list) {
                while (gsub(/\([^()]*\)/, "", list) || gsub(/<[^<>]*>/, "", list)) { }
                return list ~ /^ *(void *)?$/ ? 0 : gsub(/,/, "", list) + 1
            }
            function close_at(text,    i, depth) {
                for (i = index(text, "("); i <= length(text); i++) {
                    depth += (substr(text, i, 1) == "(") - (substr(text, i, 1) == ")")
                    if (depth == 0) { return i }
                }
                return 0
            }
            {
                gsub(/\/\*([^*]|\*[^\/])*\*\//, "")
                sub(/\/\/.*/, "")
            }
            inside_comment { if (!sub(/^.*\*\//, "")) { next } inside_comment = 0 }
            /\/\*/ { sub(/\/\*.*/, ""); inside_comment = 1 }
            /^#/ { next }
            head != "" { head = head " " $0 }
            head == "" && /^[A-Za-z_][^=]*\(/ && !/^typedef/ { head = $0 }
            head != "" {
                end = close_at(head)
                if (end > 0) {
                    name = substr(head, 1, index(head, "(") - 1)
                    is_kernel = name ~ /__global__/
                    sub(/.*[ *&]/, "", name)
                    if (!is_kernel && name !~ /_(cpu|cuda)$/ && name !~ /^[A-Z_]+$/) {
                        first = index(head, "(") + 1
                        print file, name, count(substr(head, first, end - first))
                    }
                    head = ""
                }
            }' "$1/$file"
    done
}

# long ROOT: complain about long lists.
long()
{
    functions "$1" | sort -u | awk '$3 > 8 { print $1 ": " $2 " has " $3 " parameters; more than 8 want a struct" }'
}

# said FILE TEXT: what long says of a tree that has this file.
said()
{
    local tree
    tree=$(mktemp -d) || exit 99
    mkdir -p "${layers[@]/#/$tree/}"
    printf '%b' "$2" >"$tree/$1"
    long "$tree"
    rm -rf "$tree"
}

# must_complain FILE TEXT, must_accept FILE TEXT: see that the check finds a fault planted into a tree of its own, and only faults.
must_complain()
{
    [[ -n $(said "$1" "$2") ]] || echo "the check overlooks $1: $2"
}

must_accept()
{
    [[ -z $(said "$1" "$2") ]] || echo "the check takes $1 for a fault: $2"
}

eight='int a, int b, int c, int d,\n   int e, int f, int g, int h'
faults=$(
    must_complain support/x.h "int sl_x($eight, int i);\n"
    must_complain runtime/x.c "static inline enum sl_status *x($eight, const struct y *i)\n{\n    return 0;\n}\n"
    must_complain apps/x.c "static void y(int a)\n{\n    z(a);\n}\n\nvoid x(int (*less)(int, int), $eight)\n{\n}\n"
    must_complain data/x.c "/* Many. */\nvoid x($eight, /* one more */\n  int i)\n{\n}\n"
    must_complain codelets/x_cuda.cu "template <int V, typename T>\nstatic __device__ reals<V> x($eight, T i)\n{\n}\n"
    must_complain codelets/x.h "SL_EXTERN_C enum sl_status sl_x_submit($eight, int i);\n"
    must_accept support/x.h "int sl_x($eight);\n/* int sl_y($eight, int i); */\n"
    must_accept runtime/x.c "void x(void)\n{\n    y(1, 2, 3, 4, 5, 6, 7, 8, 9);\n}\n"
    must_accept codelets/x_cuda.cu "template <int V>\nstatic __global__ void x($eight, int i)\n{\n}\n"
    must_accept codelets/x.c "SL_CLONES void sl_x_cpu($eight, int i)\n{\n}\n"
    must_accept codelets/x.h "SL_EXTERN_C enum sl_status sl_x_cuda($eight, int i);\n"
    must_accept codelets/x.c "static const int x[] = {F(1, 2), 3, 4, 5, 6, 7, 8, 9, 10};\n"
    long "$top_srcdir"
)
[[ -z $faults ]] || { echo "$faults"; exit 1; }
(($(functions "$top_srcdir" | wc -l) > 1000)) || { echo "no functions found below $top_srcdir"; exit 1; }
