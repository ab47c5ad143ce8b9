#!/bin/sh
# launch/one_node.sh gpu|RANKS [DATA_DIR] [flags of tpnet_dist.train …]: one rank per GPU of this machine, or RANKS
#
# Ranks are started by torchrun's agent, which does not start them again after a mistake of the user's (exit code 2).
# The same command goes on with an interrupted run, if it names a --run-dir; MAX_RESTARTS=3 does so by itself. PYTHON
# names the interpreter, OMP_NUM_THREADS the threads of a rank (by default 1),
# TORCH_ELASTIC_SHUTDOWN_TIMEOUT the seconds that ranks have to save after SIGTERM (torchrun: 30; here 110).
# If GPUs hang at their first collective: NCCL_DEBUG=INFO says which way they take to one another, NCCL_P2P_DISABLE=1
# sends all through the host, as some boards need. python -m tpnet_dist.doctor checks it.
set -eu

case "${1-}" in
    gpu | [1-9] | [1-9][0-9] | [1-9][0-9][0-9]) ;;
    *)
        echo "usage: $0 gpu|RANKS [DATA_DIR] [flags of tpnet_dist.train …]" >&2
        exit 2
        ;;
esac
ranks=$1
shift

exec "${PYTHON:-python}" -m tpnet_dist.distributed.launcher --standalone --nproc_per_node="$ranks" \
    --max_restarts="${MAX_RESTARTS:-0}" --shutdown_timeout="${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-110}" \
    -m tpnet_dist.train "$@"
