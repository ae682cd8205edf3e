#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Runs of more than 256 PEs, in groups of at most 256: the losses of one PE with as many seeds, and the bits of one process over several.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"

generate d --vertices 600 --edges 4000 --features 12 --classes 3
common=(--dataset ./d --cache none --layers 2 --hidden 8 --epochs 2 --chunks 1 --cpus 1 --metrics-steps --quiet)

# train NAME OPTION ...: one process.
train()
{
    local name=$1
    shift
    "$coop_sage" "${common[@]}" --metrics "$name" --predict "$name.npy" "$@" 2>stderr || complain "$name: $(cat stderr)"
    figures "$name" >"$name.figures"
}

# losses FILE: the losses of its steps.
losses()
{
    sed -n 's/.*"event": *"step".*"loss": *\([^,}]*\).*/\1/p' "$1"
}

# near NAME OTHER: losses that differ by rounding only.
near()
{
    paste <(losses "$1") <(losses "$2") | awk -v names="$1 and $2" '
        !($1 > 0 && $2 > 0 && ($1 - $2) ^ 2 < 1e-10) { print names ": step " NR ": losses " $1 " and " $2; bad = 1 }
        END { if (NR < 2) { print names ": no losses"; bad = 1 } exit bad }' >found || complain "$(cat found)"
}

# same NAME OTHER: the same bits.
same()
{
    cmp -s "$1.figures" "$2.figures" || complain "$1 and $2: other figures: $(diff "$1.figures" "$2.figures" | head -n 4 | cut -c 1-300)"
    cmp -s "$1.npy" "$2.npy" || complain "$1 and $2: other scores"
}

# ---- sums over all PEs; the steps' seeds are the same ----

train one --pes 1 --batch-size 512
train each --pes 512 --group-size 1 --batch-size 1
near one each
train labor --pes 2 --batch-size 150 --sampler labor --labor-iterations 1 # the costs of all PEs
train labors --pes 300 --group-size 1 --batch-size 1 --sampler labor --labor-iterations 1
near labor labors
train few --pes 30 --group-size 15 --batch-size 10
train fours --pes 300 --group-size 4 --batch-size 1
near few fours

# ---- again, with other workers, resumed ----

train norms --pes 300 --group-size 1 --batch-size 1 --norm batch
train norms-again --pes 300 --group-size 1 --batch-size 1 --norm batch --cpus 3
same norms norms-again
train half --pes 300 --group-size 1 --batch-size 1 --norm batch --epochs 1 --checkpoint state
train resumed --pes 300 --group-size 1 --batch-size 1 --norm batch --checkpoint state --resume=yes
tail -n 2 norms.figures >norms.end
tail -n 2 resumed.figures >resumed.end
cmp -s norms.end resumed.end && cmp -s norms.npy resumed.npy || complain "resumed: other figures: $(diff norms.end resumed.end)"

gossip=(--pes 600 --group-size 2 --batch-size 1 --sync cube --gossip-local-size 2 --gossip-average-every 1 --norm layer)
train gossip "${gossip[@]}"
losses gossip | grep -q . || complain "gossip: no losses"

# ---- refused ----

code=2
refuse "--group-size: found '257', expected .* from 1 to 256" "$coop_sage" "${common[@]}" --pes 257 --group-size 257
refuse '--group-size: found none with --pes 300, .* at most 256 PEs; use --group-size 150' "$coop_sage" "${common[@]}" --pes 300
refuse "--pes: found '65537', expected .* from 1 to 65536" "$coop_sage" "${common[@]}" --pes 65537

# ---- several processes ----

need_mpi

# in_ranks NAME N OPTION ...: as train, in N processes.
in_ranks()
{
    program=$coop_sage ranks "$2" "${common[@]}" --metrics "$1" --predict "$1.npy" "${@:3}" >stdout 2>&1 || complain "$1: $(tail -n 1 stdout)"
    figures "$1" >"$1.figures"
}
in_ranks norms-2 2 --pes 300 --group-size 1 --batch-size 1 --norm batch
same norms norms-2
in_ranks fours-3 3 --pes 300 --group-size 4 --batch-size 1
same fours fours-3
in_ranks gossip-2 2 "${gossip[@]}"
same gossip gossip-2
exit $failed
