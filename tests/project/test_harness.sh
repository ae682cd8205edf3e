#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# build-aux/cmocka-tap counts each way in which a CMocka program can end; build-aux/test-env gives a test a clean environment.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

# expect NAME STATUS OUTPUT SCRIPT: what cmocka-tap makes of a program.
expect()
{
    local output status
    printf '#!/bin/sh\n%s\n' "$4" >"$folder/program"
    chmod +x "$folder/program"
    output=$(sh "$top_srcdir/build-aux/cmocka-tap" "$folder/program" 2>/dev/null)
    status=$?
    [[ $status == "$2" && $output == "$3" ]] && return
    printf '%s: expected status %s and\n%s\nfound status %s and\n%s\n\n' "$1" "$2" "$3" "$status" "$output"
    failed=1
}

# A failure is told by its line, so the program's status is not passed on to be counted again.
expect "a pass, a failure, a skip, a failed fixture" 0 $'ok 1 - a\nnot ok 2 - b\n# why\nok 3 - c # SKIP\nnot ok 4 - d Could not run\n# not ok - group\n1..4' \
    'printf "1..4\nok 1 - a\nnot ok 2 - b\n# why\nnot ok 3 # SKIP c\nnot ok 4 - d Could not run\n# not ok - group\n"; exit 2'
expect "a skip as a later CMocka prints it" 0 $'ok 1 - c # SKIP\n1..1' 'printf "1..1\nok 1 # SKIP c\n"'
expect "two groups" 0 $'ok 1 - a\nok 2 - b\n1..2' 'printf "1..1\nok 1 - a\n1..1\nok 1 - b\n"'
expect "a crash in the second of three" 134 $'ok 1 - a\n1..3' 'printf "1..3\nok 1 - a\n"; exit 134'
expect "a sanitizer that ends with a status of its own" 23 $'ok 1 - a\n1..1' 'printf "1..1\nok 1 - a\n"; exit 23'
expect "a crash before all tests" 127 '' 'exit 127'
expect "other output" 0 $'# ok, this is no result\nok 1 - a\n1..1' 'printf "1..1\nok, this is no result\nok 1 - a\n"'

# A clean environment: settings of StarPU's and ours gone, but STARLING_DATA; an empty home each time.
run_env()
{
    env TEST_HOMES="$folder/homes" STARPU_SCHED=eager STARPU_NCPU=1 STARLING_EPOCHS=3 STARLING_DATA=/data \
        sh "$top_srcdir/build-aux/test-env" tests/name sh -c "$1"
}
for variable in STARPU_SCHED STARPU_NCPU STARLING_EPOCHS; do
    [[ -z $(run_env "echo \$$variable") ]] || { echo "$variable reaches the test"; failed=1; }
done
[[ $(run_env 'echo $STARLING_DATA') == /data ]] || { echo "STARLING_DATA does not reach the test"; failed=1; }
[[ $(run_env 'echo $STARPU_HOME') == "$folder/homes/name" ]] || { echo "STARPU_HOME is not the test's own"; failed=1; }
run_env 'touch "$STARPU_HOME/left"'
[[ -z $(run_env 'ls "$STARPU_HOME" | grep left') ]] || { echo "a home is not emptied"; failed=1; }
if env --default-signal=INT true 2>/dev/null; then
    (trap '' INT && run_env 'kill -INT $$; echo deaf') | grep -q deaf && { echo "an ignored interrupt stays so"; failed=1; }
fi
run_env 'exit 77'
[[ $? == 77 ]] || { echo "an exit status is lost"; failed=1; }
exit $failed
