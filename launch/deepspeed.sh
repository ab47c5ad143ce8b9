#!/bin/sh
# launch/deepspeed.sh gpu|RANKS [DATA_DIR] [flags of tpnet_dist.train …]: DeepSpeed's launcher and engine, this machine
#
# --training.deepspeed FILE.json changes its settings. The same command goes on with an interrupted run, if it names a
# --run-dir. The launcher does not pass SIGTERM on: signal the process group (kill -TERM -- -PID). PYTHON names the
# interpreter, MASTER_PORT where ranks meet, if two runs share this machine.
set -eu

case "${1-}" in
    gpu) set -- "" "$@" ;;
    [1-9] | [1-9][0-9] | [1-9][0-9][0-9]) set -- "--num_gpus=$1" "$@" ;;
    *)
        echo "usage: $0 gpu|RANKS [DATA_DIR] [flags of tpnet_dist.train …]" >&2
        exit 2
        ;;
esac
ranks=$1
shift 2

if ! command -v nvidia-smi >/dev/null 2>&1; then
    export DS_ACCELERATOR="${DS_ACCELERATOR:-cpu}"
fi
# as torchrun does: else every rank takes all cores
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# memory of a GPU in pieces that grow, so that batches of different sizes leave no holes; CPUs do not look at it
export PYTORCH_ALLOC_CONF="${PYTORCH_ALLOC_CONF:-${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}}"

# without --no_local_rank each rank would get a flag it does not know
exec "${PYTHON:-python}" -m deepspeed.launcher.runner ${ranks:+"$ranks"} --master_port="${MASTER_PORT:-29500}" \
    --log_level=error --no_local_rank --module tpnet_dist.train "$@" --training.engine deepspeed
