#!/bin/bash
# Pre-train on several machines:
#
#   sbatch examples/slurm/pretrain.sh runs/imagenet --recipe imagenet-simclr-amcl
#
# The first argument is the run folder, on a disk that all machines share. The others are options of
# `amcl pretrain` for a new run. A run that is in the folder is resumed, so the same command, given
# again, continues after a time limit, and does nothing once the run has finished.
#SBATCH --job-name=amcl-pretrain
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.txt
set -euo pipefail

if (($# == 0)); then
    echo "usage: sbatch pretrain.sh RUN [OPTIONS OF A NEW RUN], as in --data FOLDER" >&2
    exit 2
fi
run=$1
shift
if [[ -e $run/config.toml ]]; then
    settings=(--resume "$run")
else
    settings=("$@" --out "$run")
fi

# The first machine of the job is where the processes meet. Jobs that share it need other ports.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 20000))

# One torchrun on each machine starts a process for each of its GPUs, which share its cores.
processes=${SLURM_GPUS_ON_NODE:-1}
cores=$((SLURM_CPUS_PER_TASK / processes))
export OMP_NUM_THREADS=$((cores > 0 ? cores : 1))
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # srun no longer takes it from sbatch
srun torchrun \
    --nnodes "$SLURM_JOB_NUM_NODES" \
    --nproc-per-node "$processes" \
    --rdzv-id "$SLURM_JOB_ID" \
    --rdzv-backend c10d \
    --rdzv-endpoint "$first:$port" \
    -m amcl pretrain "${settings[@]}"
