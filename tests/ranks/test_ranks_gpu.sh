#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# GPUs in several processes: the losses, scores and files of one process with as many GPUs, to the bit; which GPUs are whose. For
# `make check-gpu` on a machine with two GPUs or more, and `make check-gpu-sim`, which names the programs; elsewhere it skips.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$coop_sage
pipe=$pipe_gnn
[[ ${SL_TEST_DEVICE:-} == cuda ]] || skip "make check-gpu and make check-gpu-sim run this"
need_mpi

# Two GPUs, and of simulated ones as many as anybody wants.
IFS=, read -ra gpu <<<"${CUDA_VISIBLE_DEVICES:-0,1}"
[[ $program == *.simgpu ]] && gpu=(0 1 2 3) && export SL_EMULATED_GPUS=4
[[ ${#gpu[@]} -ge 2 ]] || skip "\$CUDA_VISIBLE_DEVICES has fewer than two GPUs"
export CUDA_VISIBLE_DEVICES=${gpu[0]},${gpu[1]}

generate dense --vertices 600 --edges 4000 --features 20 --classes 5
generate sparse --vertices 600 --edges 4000 --features 150 --classes 5 --sparse
generate thick --vertices 1300 --edges 200000 --features 20 --classes 5 # hundreds of edges a vertex
common=(--cache none --epochs 1 --hidden 12 --layers 2 --quiet)
sampled=(--batch-size 40 --chunks 2)

if ! "$program" "${common[@]}" "${sampled[@]}" --dataset dense --epochs 1 --gpus 2 >stdout 2>&1; then
    tail -n 1 stdout
    grep -q -e '--gpus: found 2' stdout && exit 77
    exit 1
fi

results+=(--metrics-steps)

# same NAME PROGRAM ARGUMENT ...: one process with two GPUs, and two with one each.
same()
{
    local name=$1 program=$2
    shift 2
    "$program" "${common[@]}" --gpus 2 "${results[@]//many/one}" "$@" 2>stderr || complain "$name: $(cat stderr)"
    ranks 2 "${common[@]}" --gpus 1 "${results[@]}" "$@" >stdout 2>&1 || complain "$name on two ranks: $(tail -n 1 stdout)"
    same_results "$name"
}

# same_within NAME ARGUMENT ...: coop_sage in one process with four GPUs, and in two with two each that NCCL connects.
same_within()
{
    local name=$1
    shift
    "$program" "${common[@]}" "${sampled[@]}" --gpus 4 "${results[@]//many/one}" "$@" 2>stderr || complain "$name: $(cat stderr)"
    SL_EMULATED_NCCL_TELLS=1 ranks 2 "${common[@]}" "${sampled[@]}" --gpus 2 --transport nccl "${results[@]}" "$@" >stdout 2>&1 ||
        complain "$name on two ranks: $(tail -n 1 stdout)"
    same_results "$name"
    [[ $program != *.simgpu ]] || (($(grep -c '^simulated NCCL: [1-9]' stdout) == 2)) || complain "$name: NCCL had nothing to do: $(cat stdout)"
}

# ---- the same bits ----

while read -r name options; do
    same "$name" "$program" "${sampled[@]}" $options
done <<'RUNS'
sage --dataset dense --pes 4 --dropout 0.3
gcn --dataset sparse --pes 3 --model gcn --norm batch
gat --dataset dense --pes 4 --model gat --heads 3 --norm layer
gatv2 --dataset dense --pes 4 --model gatv2 --heads 3 --skip
gcnii --dataset dense --pes 2 --model gcnii --layers 3
bf16 --dataset dense --pes 4 --precision bf16 --norm layer --residual
bf16-gat --dataset dense --pes 4 --precision bf16 --model gat --heads 3
cached --dataset dense --pes 4 --feature-cache 40 --residual
groups --dataset dense --pes 4 --group-size 2 --sampler labor --kappa 3
gossip --dataset dense --pes 4 --group-size 1 --sync dissemination
slices --dataset thick --pes 2 --hidden 128 --layers 3 --epochs 1 --batch-size 300
RUNS
while read -r name options; do
    same "$name" "$pipe" $options
done <<'RUNS'
stages --dataset dense --epochs 2 --model resgcn --layers 4 --stages 2 --ways 1 --chunks 4
ways --dataset dense --epochs 2 --model gcn --stages 1 --ways 4 --chunks 4
RUNS

# ---- NCCL within a rank ----

# Rows between the GPUs of a rank go by NCCL, those between ranks and all sums as ever: the same bits as without.
if ((${#gpu[@]} >= 4)) && [[ $(nm -D "$top_builddir/.libs/libstarling.so") == *ncclCommInitRankConfig* ]]; then
    while read -r name options; do
        CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${gpu[*]}") same_within "$name" $options
    done <<'RUNS'
nccl --dataset dense --pes 8 --dropout 0.3
nccl-bf16 --dataset dense --pes 8 --precision bf16
nccl-groups --dataset sparse --pes 8 --group-size 4 --model gcn
nccl-gossip --dataset dense --pes 8 --group-size 2 --sync dissemination
RUNS
else
    echo "NCCL within a rank was not seen: there are ${#gpu[@]} GPUs, expected 4, and a build with NCCL"
fi

# ---- which GPUs are whose ----

# refuse PATTERN COMMAND ...: it fails, and all that it says is lines that match; ranks that fail at once may all say so.
refuse()
{
    local pattern=$1 status
    shift
    timeout 60 "$@" >stdout 2>stderr </dev/null
    status=$?
    [[ $status -eq 1 || $status -eq 2 ]] || complain "$*: expected exit code 1 or 2, found $status"
    [[ -s stderr ]] && ! grep -Ev -- "$pattern" stderr || complain "$*: expected '$pattern', found: $(cat stderr)"
}

run=("$program" "${common[@]}" "${sampled[@]}" --dataset dense)
# A process has the GPUs beside the last one's: only rank 1's is short of memory.
refuse 'rank 1: a GPU: expected room' env STARPU_LIMIT_CUDA_1_MEM=8 "${launch[@]}" -np 2 "${run[@]}" --gpus 1
refuse 'rank 0: a GPU: expected room' env STARPU_LIMIT_CUDA_0_MEM=8 "${launch[@]}" -np 2 "${run[@]}" --gpus 1
refuse 'rank [01]: a GPU: expected room' env STARPU_LIMIT_CUDA_1_MEM=8 STARPU_WORKERS_CUDAID=1 "${launch[@]}" -np 2 "${run[@]}" --gpus 1
refuse 'rank [01]: --gpus: found 1 for 2 processes' env CUDA_VISIBLE_DEVICES="${gpu[1]}" "${launch[@]}" -np 2 "${run[@]}"
refuse 'rank [01]: --gpus: found 2, expected at most 1: processes' "${launch[@]}" -np 2 "${run[@]}" --gpus 2
refuse '--transport nccl cannot be used with --gpus 0' "${launch[@]}" -np 2 "${run[@]}" --gpus 0 --transport nccl
# Each may have one of its own, and some none.
"${launch[@]}" -np 1 env CUDA_VISIBLE_DEVICES="${gpu[1]}" "${run[@]}" --metrics many : -np 1 env CUDA_VISIBLE_DEVICES="${gpu[0]}" "${run[@]}" --metrics many >stdout 2>&1 ||
    complain "each process with a GPU of its own: $(tail -n 1 stdout)"
grep -q '"pes": *2' many || complain "a PE for each GPU of all processes: $(head -n 1 many)"
"${launch[@]}" -np 1 "${run[@]}" --gpus 1 : -np 1 "${run[@]}" --gpus 0 >stdout 2>&1 || complain "a GPU in one of two: $(tail -n 1 stdout)"

exit $failed
