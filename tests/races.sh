#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Whole runs watched by the thread sanitizer: make check-races, in a build with --enable-sanitizer=thread; another is refused. Sampled
# sage, gat, gossip between groups, PEs in teams, pipelines over the full graph, and checkpoints with evaluation, gone on with; on a
# generated graph. What StarPU orders by means that the sanitizer does not know is in build-aux/tsan.supp.

set -u
apps=$(cd "$top_builddir/apps" && pwd) || exit 1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0

# Without the sanitizer nobody would watch, and nothing would be reported.
for program in coop_sage pipe_gnn starling_data; do
    TSAN_OPTIONS=help=1 "$apps/$program" --version 2>&1 | grep -q '^Available flags for ThreadSanitizer' || {
        echo "expected $program to be built with the thread sanitizer, found it without; try ./configure --enable-sanitizer=thread"
        exit 1
    }
done

# watch NAME COMMAND ...: run it; races, and whatever else ends it, are told and counted.
watch()
{
    local name=$1 n status
    shift
    "$@" >stdout 2>stderr
    status=$?
    n=$(grep -c '^WARNING: ThreadSanitizer' stderr)
    echo "$name: exit code $status, $n reports"
    if ((status != 0 || n != 0)); then
        cat stderr
        failed=1
    fi
}

watch generate "$apps/starling_data" generate --vertices 1500 --features 12 --classes 4 --out made
graph='--dataset ./made --cpus 3 --lr 0.01'
sampled="$graph --layers 2 --hidden 16 --fanout 5,5 --batch-size 100 --epochs 2"
{
    watch sage "$apps/coop_sage" $sampled --pes 2 --chunks 2 --norm batch --feature-cache 100
    watch gat "$apps/coop_sage" $sampled --pes 2 --model gat --heads 2
    watch gossip "$apps/coop_sage" $sampled --pes 4 --group-size 1 --sync dissemination
    watch teams "$apps/coop_sage" $sampled --pes 8 --chunks 2 --norm batch # more than two PEs for each of three workers
    # Each home has two workers, and there may be more workers than cores.
    watch workers "$apps/coop_sage" ${sampled/--cpus 3/--cpus 8} --pes 4 --chunks 2
    watch pipe "$apps/pipe_gnn" $graph --layers 4 --hidden 16 --stages 2 --ways 2 --chunks 4 --epochs 3
    watch pipe-again "$apps/pipe_gnn" $graph --layers 6 --hidden 16 --stages 2 --ways 1 --chunks 8 --history-every 1 --recompute --epochs 3
    watch checkpoint "$apps/coop_sage" $sampled --pes 2 --checkpoint kept --metrics m.jsonl --metrics-steps
    watch resume "$apps/coop_sage" $sampled --pes 2 --checkpoint kept --metrics m.jsonl --resume --epochs 3 \
        --predict p.npy --embed e.npy --save s.safetensors
}
exit $failed
