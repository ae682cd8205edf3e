#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Gossip against all-reduce over a slow network: four network namespaces of this machine are four machines with one
# process each, and wire.c carries their packets with a delay (ms) and a limit (Mbit/s in each direction). Prints a
# table of seconds an epoch, median and range, and of weights sent. The runs of a network take turns. Needs a build with
# MPI, and root.
#
# usage: slow_link.sh PROGRAM WIRE [ROUNDS]

set -eu

program=$(realpath "$1") wire=$(realpath "$2") rounds=${3:-3}
networks=("0 10000" "1 1000" "1 100")
syncs=(allreduce dissemination cube)
options=(--dataset amazon-computers --split luo2024-60-20-20 --pes 4 --group-size 1 --layers 2 --norm layer --batch-size 32
         --hidden 64 --fanout 5,5 --epochs 4 --eval-every 0 --lr 0.01 --cpus 1 --quiet)

skip()
{
    echo "slow_link: skipped: $*"
    exit 77
}

command -v mpirun >/dev/null || skip 'there is no mpirun; ./bootstrap --with-mpi installs it'
unshare --net --uts true 2>/dev/null && command -v ip >/dev/null || skip 'expected root, unshare and ip (Debian: iproute2)'
folder=$(mktemp -d)
machines=("link$$a" "link$$b" "link$$c" "link$$d")
carrier=
trap '[[ -z $carrier ]] || kill "$carrier" || true; for m in "${machines[@]}"; do ip netns del "$m" 2>/dev/null || true; done; rm -rf "$folder"' EXIT

cat >"$folder/shell" <<'EOF'
#!/bin/sh
machine=$1
shift
exec ip netns exec "$machine" unshare --uts sh -c "hostname $machine; $*"
EOF
chmod +x "$folder/shell"
for m in "${machines[@]}"; do
    ip netns add "$m"
    ip -n "$m" link set lo up
done

# connect DELAY MBIT: put a network between the machines, in place of the one that was there.
connect()
{
    local i
    if [[ -n $carrier ]]; then
        kill "$carrier"
        wait "$carrier" 2>/dev/null || true
    fi
    : >"$folder/ready"
    "$wire" "$1" "$2" "${machines[@]}" >"$folder/ready" &
    carrier=$!
    until [[ -s $folder/ready ]]; do
        kill -0 "$carrier"
        sleep 0.1
    done
    for i in "${!machines[@]}"; do
        ip -n "${machines[i]}" addr add "10.78.0.$((i + 1))/24" dev wire
        ip -n "${machines[i]}" link set wire mtu 9000 up
    done
}

# train OPTION ...: a run of four processes; its metrics are in $folder/metrics.
train()
{
    local hosts
    hosts=$(IFS=,; echo "${machines[*]/%/:1}")
    timeout 600 ip netns exec "${machines[0]}" unshare --uts sh -c 'hostname "$0"; exec "$@"' "${machines[0]}" \
        mpirun --allow-run-as-root -q --mca plm_rsh_agent "$folder/shell" --mca oob_tcp_if_include wire --mca btl_tcp_if_include wire \
        --mca btl self,tcp --mca pml ob1 --mca mpi_yield_when_idle 1 --bind-to none --host "$hosts" -np 4 \
        "$program" "${options[@]}" --metrics "$folder/metrics" "$@" </dev/null
}

# figures SYNC: after the first epoch, seconds and bytes of weights of each, one line each.
figures()
{
    sed -nE '/"event":"epoch"/s/.*"epoch":([0-9]+),.*"seconds":([0-9.e+-]+).*"weights":([0-9]+).*/\1 \2 \3/p' "$folder/metrics" |
        awk -v sync="$1" '$1 > 1 { print sync, $2, $3 / 4 / 1e6 }'
}

echo "\`mpirun -np 4 coop_sage ${options[*]} --sync ...\`, $rounds rounds"
echo
echo '| network | sync | epoch, s | range | MB a machine and epoch | all-reduce / this |'
echo '| --- | --- | --- | --- | --- | --- |'
for network in "${networks[@]}"; do
    read -r delay mbit <<<"$network"
    connect "$delay" "$mbit"
    : >"$folder/all"
    for ((round = 0; round < rounds; round++)); do
        for sync in "${syncs[@]}"; do
            train --sync "$sync"
            figures "$sync" >>"$folder/all"
        done
    done
    for sync in "${syncs[@]}"; do
        awk -v sync="$sync" '$1 == sync { print $2, $3 }' "$folder/all" | sort -g |
            awk '{ s[NR] = $1; mb = $2 } END { print s[int((NR + 1) / 2)], s[1], s[NR], mb }' >"$folder/row"
        read -r median least most mb <"$folder/row"
        [[ $sync != allreduce ]] || base=$median
        printf '| %s ms, %s Mbit/s | %s | %.3f | %.3f .. %.3f | %.2f | %.2f |\n' "$delay" "$mbit" "$sync" "$median" "$least" "$most" \
            "$mb" "$(awk "BEGIN { print $base / $median }")"
    done
done
