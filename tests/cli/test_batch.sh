#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# The batch scripts of doc/guide/machines.md, with stand-ins for Slurm's programs: a run that gets the signal is saved and queued again, one
# that ends is not.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

generate d --vertices 300 --edges 2000 --features 8 --classes 3
mkdir bin
cat >bin/srun <<'END'
#!/bin/bash
while [[ $1 == --* ]]; do shift; done
echo $$ >pid
exec "$@"
END
cat >bin/scontrol <<'END'
#!/bin/bash
echo "$*" >>requeued
END
chmod +x bin/srun bin/scontrol
export PATH=$folder/bin:$PATH SLURM_JOB_ID=17

# block N: the N-th block of commands below "A batch script", for a small dataset and --epochs $epochs.
block()
{
    sed -n '/^### A batch script/,/^## /p' "$top_srcdir/doc/guide/machines.md" |
        awk -v n="$1" '/^```sh/ { inside = ++i == n; next } /^```/ { inside = 0 } inside' |
        sed "s|./apps/coop_sage --dataset arxiv|$coop_sage --dataset ./d --cache none --hidden 8 --batch-size 50 --cpus 1|; s|--pes 8|--pes 2|; s|--epochs 500|--epochs $epochs|"
}

# await_state: until there is a checkpoint.
await_state()
{
    local i
    for ((i = 0; i < 1200; i++)); do
        [[ ! -s state/checkpoint.safetensors ]] || return 0
        sleep 0.05
    done
    complain "no checkpoint after a minute: $(cat out)"
}

epochs=1000000
block 1 >job.sh && grep -q '^#SBATCH .*--signal=USR1@120.*--requeue' job.sh || complain "no batch script: $(cat job.sh)"
bash job.sh >out 2>&1 &
job=$!
await_state
kill -s USR1 "$(cat pid)"
wait $job || complain "the job: exit code $?, $(cat out)"
[[ $(cat requeued 2>&1) == 'requeue 17' && -s model.safetensors ]] || complain "not queued again: $(cat out)"
rm -f requeued
epochs=3
rm -r state
block 1 >job.sh
bash job.sh >out 2>&1 || complain "a job to its end: exit code $?, $(cat out)"
[[ ! -e requeued ]] || complain "a job that has ended was queued again: $(cat out)"
rm -r state

epochs=1000000
block 2 | sed "s|--resume=auto|& --epochs $epochs|" >job.sh
bash job.sh >out 2>&1 &
job=$!
await_state
kill -s USR1 $job
wait $job || complain "the script that passes the signal on: exit code $?, $(cat out)"
grep -q '^interrupted by signal 10' out || complain "the script that passes the signal on: $(cat out)"
rm -r state

# A script's background programs ignore SIGINT of the terminal. They take kill -INT, as its trap sends.
cat >job.sh <<END
"$coop_sage" --dataset ./d --cache none --hidden 8 --batch-size 50 --cpus 1 --epochs $epochs --checkpoint state &
echo \$! >pid
wait \$!
END
bash job.sh >out 2>&1 &
job=$!
await_state
kill -s INT "$(cat pid)"
wait $job
status=$?
[[ $status -eq 130 ]] && grep -q '^interrupted by signal 2' out || complain "kill -INT of a background program: exit code $status, $(cat out)"

exit $failed
