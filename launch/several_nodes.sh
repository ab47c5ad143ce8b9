#!/bin/sh
# launch/several_nodes.sh NODES gpu|RANKS HOST[:PORT] [DATA_DIR] [flags of tpnet_dist.train …]: the same on each machine
#
# HOST is one of the machines, reachable from all; they meet there. Each has gpu|RANKS ranks, and the data folder and
# --run-dir under the same path: the run folder is written by the first rank, wherever that is, so let it be shared.
# With several networks name the one to use: GLOO_SOCKET_IFNAME=eth0, NCCL_SOCKET_IFNAME=eth0. Two runs at a time need two
# ports: the first to come keeps the meeting place for both, and takes it along when it ends. PYTHON names the
# interpreter, MAX_RESTARTS how often to go on after a failure (never after exit code 2, a mistake of the user's),
# TORCH_ELASTIC_SHUTDOWN_TIMEOUT the seconds that ranks have to save after SIGTERM (torchrun: 30; here 110). NCCL_DEBUG=INFO says which network NCCL takes; without InfiniBand
# NCCL_IB_DISABLE=1 spares the search for it.
set -eu

case "${1-} ${2-}" in
    *[!0-9]*' '* | ' '* | 0*) usage=wrong ;;
    *' gpu' | *' '[1-9] | *' '[1-9][0-9] | *' '[1-9][0-9][0-9]) usage=right ;;
    *) usage=wrong ;;
esac
if [ "$usage" = wrong ] || [ "$#" -lt 3 ]; then
    echo "usage: $0 NODES gpu|RANKS HOST[:PORT] [DATA_DIR] [flags of tpnet_dist.train …]" >&2
    exit 2
fi
nodes=$1 ranks=$2 endpoint=$3
shift 3
case "$endpoint" in
    *:*) ;;
    *) endpoint=$endpoint:29400 ;;
esac

exec "${PYTHON:-python}" -m tpnet_dist.distributed.launcher --nnodes="$nodes" --nproc_per_node="$ranks" \
    --rdzv_backend=c10d --rdzv_endpoint="$endpoint" --rdzv_id=tpnet \
    --max_restarts="${MAX_RESTARTS:-3}" --shutdown_timeout="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-110}" \
    -m tpnet_dist.train "$@"
