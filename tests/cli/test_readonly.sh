#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the Starling authors
#
# Programs where every file system is read-only, /tmp and $HOME too, but for one folder or none: what need not write runs, and what is to
# be written is refused by one line before the work begins. In mounts of their own, which root may have; skipped for others.

# shellcheck source=tests/lib.sh
source "$top_srcdir/tests/lib.sh"
unset TMPDIR

# sealed COMMAND...: run it with nothing writable but the folder `open`. 77: that cannot be had here.
cat >sealed <<'END'
mount --bind open open || exit 77
while read -r _ target kind _; do
    case $kind:$target in
        proc:* | sysfs:* | devpts:* | mqueue:* | cgroup*:* | *:"$PWD/open") ;;
        *) mount -o remount,bind,ro "$target" ;;
    esac
done </proc/self/mounts 2>/dev/null
cd . && for place in . /tmp "${HOME:-.}"; do
    ! touch "$place/starling-touched" || { rm "$place/starling-touched"; exit 77; }
done 2>/dev/null
touch open/touched && exec "$@"
END

# expect STATUS PATTERN PROGRAM ARGUMENT...: as in tests/cli/test_coop_sage.sh, sealed.
expect()
{
    local status wanted=$1 pattern=$2
    shift 2
    unshare --mount bash sealed "$top_builddir/apps/$1" "${@:2}" >open/stdout 2>open/stderr
    status=$?
    [[ $status -eq $wanted ]] || complain "$*: expected exit code $wanted, found $status: $(cat open/stdout open/stderr)"
    grep -Eq -- "$pattern" open/stdout open/stderr || complain "$*: expected '$pattern', found: $(cat open/stdout open/stderr)"
    [[ $(wc -l <open/stderr) -eq $wanted ]] || complain "$*: expected $wanted lines of error, found: $(cat open/stderr)"
    [[ $wanted -eq 0 ]] || ! grep -q '^epoch' open/stdout || complain "$*: refused when it had worked: $(cat open/stdout)"
}

mkdir open
unshare --mount bash sealed true 2>/dev/null || skip "no mounts of one's own may be made here"
generate made --vertices 500 --edges 2000 --classes 4 --features 8
run='--dataset ./made --layers 2 --hidden 8 --epochs 1 --cpus 2'

# StarPU must have a folder; without any, the line says so.
for program in coop_sage pipe_gnn; do
    HOME='' XDG_CACHE_HOME='' expect 1 "^$program: .XDG_CACHE_HOME: found '', expected a folder" $program $run
done

# With that alone, and no $HOME, programs run, and the dataset is read where it lies.
unset HOME XDG_CACHE_HOME
export STARPU_HOME=$PWD/open/starpu
mkdir "$STARPU_HOME"
for program in coop_sage pipe_gnn; do
    expect 0 '^epoch +1/1 ' $program $run
    expect 0 '^epoch +1/1 ' $program $run --save open/$program.safetensors
    [[ -s open/$program.safetensors ]] || complain "$program --save: wrote nothing"
    for output in save metrics checkpoint; do
        expect 1 "$output.*(Read-only|can be written)|Read-only.*$output" $program $run --$output $output.out
    done
done
for output in predict embed trace; do
    expect 1 "$output.*(Read-only|can be written|FxT)|Read-only.*$output" coop_sage $run --$output $output.npy
done
expect 0 '500' starling_data info ./made
expect 1 'Read-only|can be written' starling_data generate --vertices 500 --edges 2000 --classes 4 --features 8 --out again

exit $failed
