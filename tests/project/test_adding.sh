#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# doc/guide/adding.md: the codelet on the page has at most 60 lines. It is built as it stands and run as a task, and, with a C++
# compiler, as a kernel over the simulated CUDA (tests/simgpu). Both give the sum.

set -u
# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

mkdir -p codelets/rows
awk '/^```/ { file = ""; first = /^```c$/; next }
     first && match($0, /codelets\/rows\/[a-z_]+\.[ch]/) { file = substr($0, RSTART, RLENGTH) }
     { first = 0 }
     file != "" { print > file }' "$top_srcdir/doc/guide/adding.md"
lines=$(cat codelets/rows/scaled_sum.[ch] | wc -l)
((lines > 20 && lines <= 60)) || complain "adding.md: the codelet has $lines lines, expected at most 60"

cat >task.c <<'PROGRAM'
#include "codelets/rows/scaled_sum.h"

#include "tests/support/starpu_fixture.h"

TEST(task)
{
    sl_real x[] = {1, 2, 3, 4, 5, 6}, y[] = {1, 0, -1, 10, 20, 30}, z[6], wrong[4];
    fixture_start(1);
    starpu_data_handle_t h[] = {rows_of(x, 2, 3), rows_of(y, 2, 3), rows_of(z, 2, 3), rows_of(wrong, 2, 2)};
    expect_ok(sl_scaled_sum_submit(&head, 0.5, h[0], h[1], h[2]));
    assert_int_equal(sl_scaled_sum_submit(&head, 0.5, h[0], h[1], h[3]), SL_EINTERNAL);
    UNREGISTER(h);
    expect_no_failure();
    fixture_stop();
    for (int i = 0; i < 6; i++) {
        assert_true(z[i] == x[i] + (sl_real)0.5 * y[i]);
    }
}

TEST_MAIN(NULL, NULL)
PROGRAM
cat >kernel.c <<'PROGRAM'
#include <stddef.h>

int sl_scaled_sum_cuda(void *stream, size_t n, float a, const float *x, const float *y, float *z);

int main(void)
{
    static float x[1000], y[1000], z[1000];
    for (int i = 0; i < 1000; i++) {
        x[i] = (float)i;
        y[i] = (float)(i % 7);
    }
    if (sl_scaled_sum_cuda(NULL, 1000, 0.5f, x, y, z) != 0) {
        return 2;
    }
    for (int i = 0; i < 1000; i++) {
        if (z[i] != x[i] + 0.5f * y[i]) {
            return 1;
        }
    }
    return 0;
}
PROGRAM

# build PROGRAM FILE ...: with the library, and without a warning.
build()
{
    local program=$1
    shift
    bash "$top_builddir/libtool" --silent --tag=CC --mode=link ${CC} ${SL_LINK} -Werror ${SL_CPPFLAGS} -I. -o "$program" "$@" \
        "$top_builddir/libstarling_core.la" ${SL_LIBS} >output 2>&1 || complain "$program is not built: $(cat output)"
}

# No GPU runs the task. A library with CUDA refers to the kernel all the same.
echo 'int sl_scaled_sum_cuda(void); int sl_scaled_sum_cuda(void) { return 1; }' >no_gpu.c

build task task.c codelets/rows/scaled_sum.c no_gpu.c
./task >output 2>&1 || complain "the codelet as a task: $(cat output)"
[[ $CXX != : ]] || { echo "there is no C++ compiler: the kernel is not run"; exit $failed; }
for file in codelets/rows/scaled_sum.c "$top_srcdir/tests/simgpu/emulate.cc"; do
    ${CXX} -std=c++17 -O1 -ffp-contract=off -Wall -Wextra -Werror -Wno-unknown-pragmas -I. -I"$top_srcdir/tests/simgpu" -DSL_KERNELS_ONLY \
        -DSL_CUDA ${SL_CPPFLAGS} -x c++ -c -o "$(basename "$file").o" "$file" >output 2>&1 || complain "$file: $(cat output)"
done
build kernel kernel.c scaled_sum.c.o emulate.cc.o -lstdc++
./kernel || complain "the codelet as a CUDA kernel: status $?"
exit $failed
