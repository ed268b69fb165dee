#!/usr/bin/env bash
# The whole run inside one allocation of SLURM, for sites where jobs may not submit jobs: sbatch one-allocation.sh run.toml
#
# The first task is the scheduler, the others are workers; the command itself runs beside the scheduler. Everything speaks
# TLS with keys that are made here, in a folder that only you can read, and that is removed at the end. Killed, or out of
# time: submit the same line again, and the run goes on where it was.
#SBATCH --job-name=dlcca
#SBATCH --ntasks=9              # one for the scheduler and the command, the rest are workers
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=5G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120     # two minutes before the end, so that the command can close what it has open
##SBATCH --partition=normal
##SBATCH --account=project123
set -euo pipefail

runfile=${1:?which run? sbatch one-allocation.sh run.toml}
memory=${DLCCA_WORKER_MEMORY:-4GiB}          # of each worker; below --mem-per-cpu
shared=${DLCCA_SHARED:-$HOME/.dlcca}         # seen by all nodes
interface=${DLCCA_INTERFACE:-}               # the network between the nodes, as ib0; the usual one if empty

# module load python/3.11
# source /shared/env/bin/activate

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
umask 077
mkdir -p "$shared"
keys=$(mktemp -d "$shared/keys-job-$SLURM_JOB_ID-XXXXXX")
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$keys"' EXIT
trap 'exit 143' TERM

python3 -c 'import sys, pathlib; from dlcca.clusters.keys import write_keys; write_keys(pathlib.Path(sys.argv[1]))' "$keys"
tls=(--tls-ca-file "$keys/authority.pem" --tls-cert "$keys/certificate.pem" --tls-key "$keys/key.pem")
quiet=(--no-dashboard --dashboard-address 127.0.0.1:0)
host=$(python3 -c 'import sys; from distributed.utils import get_ip, get_ip_interface as of
print(of(sys.argv[1]) if sys.argv[1] else get_ip())' "$interface")

python3 -m distributed.cli.dask_scheduler "${tls[@]}" "${quiet[@]}" --host "tls://$host" --port 0 \
    --scheduler-file "$keys/scheduler.json" &
for _ in $(seq 300); do [ -s "$keys/scheduler.json" ] && break; sleep 0.2; done
address=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' "$keys/scheduler.json")

srun --ntasks=$((SLURM_NTASKS - 1)) --kill-on-bad-exit=0 --overlap \
    python3 -m distributed.cli.dask_worker "$address" "${tls[@]}" "${quiet[@]}" --protocol tls \
    ${interface:+--interface "$interface"} --nthreads 1 --memory-limit "$memory" \
    --local-directory "${TMPDIR:-/tmp}" --death-timeout 60 &

cat > "$keys/cluster.toml" <<EOF
kind = "existing"
address = "$address"
ca_file = "$keys/authority.pem"
cert_file = "$keys/certificate.pem"
key_file = "$keys/key.pem"
EOF
dlcca run "$runfile" --cluster "$keys/cluster.toml" &
run=$!
wait "$run"
