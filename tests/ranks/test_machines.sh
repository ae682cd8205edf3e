#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Ranks on machines of their own, as far as one machine can be two: network namespaces, each with its host name, processes of MPI's and
# address, which reach each other by TCP over a cable between two virtual cards, and share no memory. The losses, scores and files are
# those of one process. Skipped where namespaces may not be made.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
program=$coop_sage
has_mpi || skip "this build has no MPI"
for tool in mpirun ip unshare hostname; do
    command -v "$tool" >/dev/null || skip "there is no $tool"
done

machines=("starling$$a" "starling$$b")
# shellcheck disable=SC2317 # lib.sh calls it
at_exit()
{
    ip netns del "${machines[0]}" 2>/dev/null
    ip netns del "${machines[1]}" 2>/dev/null
}

# ---- two machines, 10.77.0.1 and 10.77.0.2 ----

for name in "${machines[@]}"; do
    ip netns add "$name" 2>stderr || skip "network namespaces cannot be made: $(head -n 1 stderr)"
done
ip -n "${machines[0]}" link add cable type veth peer name cable netns "${machines[1]}" 2>stderr || skip "no virtual cards: $(head -n 1 stderr)"
for i in 0 1; do
    ip -n "${machines[i]}" addr add "10.77.0.$((i + 1))/24" dev cable && ip -n "${machines[i]}" link set lo up &&
        ip -n "${machines[i]}" link set cable up || exit 99
done

# What mpirun starts its processes on the other machine with, where others have ssh.
cat >shell <<'EOF'
#!/bin/sh
machine=$1
shift
exec ip netns exec "$machine" unshare --uts sh -c "hostname $machine; $*"
EOF
chmod +x shell

# on_machines N COMMAND ...: the command in N processes, dealt to both in turns.
on_machines()
{
    local n=$1 hosts="${machines[0]}:$(($1 / 2)),${machines[1]}:$((($1 + 1) / 2))"
    shift
    timeout 120 ip netns exec "${machines[0]}" unshare --uts sh -c 'hostname "$0"; exec "$@"' "${machines[0]}" \
        mpirun -q --mca plm_rsh_agent "$PWD/shell" --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
        --mca btl self,vader,tcp --mca pml ob1 --bind-to none --map-by node --host "$hosts" -np "$n" "$@" </dev/null
}

on_machines 2 hostname >stdout 2>stderr || skip "mpirun does not start over namespaces: $(head -n 1 stderr)"
[[ $(sort stdout | xargs) == "${machines[*]}" ]] || complain "two ranks on two machines: found $(xargs <stdout)"

# ---- the same bits ----

# figures FILE: all that the metrics tell of a run but its machine and its time.
# packets: that have gone over the cable.
packets()
{
    ip netns exec "${machines[0]}" cat /sys/class/net/cable/statistics/tx_packets
}

generate made --vertices 600 --edges 4000 --features 20 --classes 5
run=(--dataset made --cache none --pes 4 --epochs 2 --batch-size 40 --hidden 12 --layers 2 --cpus 1 --chunks 2 --dropout 0.3 --norm batch
     --metrics-steps --quiet)
"$program" "${run[@]}" --metrics one --predict one.npy --save one.model 2>stderr || complain "one process: $(cat stderr)"
for n in 2 4; do
    before=$(packets)
    on_machines "$n" "$program" "${run[@]}" --metrics many --predict many.npy --save many.model >stdout 2>&1 ||
        complain "$n ranks on two machines: $(tail -n 1 stdout)"
    (($(packets) - before > 100)) || complain "$n ranks on two machines: only $(($(packets) - before)) packets went from one to the other"
    cmp -s <(figures one) <(figures many) ||
        complain "$n ranks on two machines give other figures: $(diff <(figures one) <(figures many) | head -n 4 | cut -c 1-300)"
    cmp -s one.npy many.npy || complain "$n ranks on two machines predict otherwise"
    cmp -s one.model many.model || complain "$n ranks on two machines give another model"
done

exit $failed
