#!/bin/bash
# Search for settings with eight workers, each a job with a GPU of its own:
#
#   sbatch examples/slurm/search.sh studies/stl10 --recipe stl10-simclr-amcl --trials 50
#
# The first argument is the folder of the study, on a disk that all machines share. The others are
# options of `amcl search`. The workers share the trials through a journal in that folder, or
# through the database that STORAGE names:
#
#   STORAGE=postgresql://me@database/studies sbatch examples/slurm/search.sh studies/stl10 …
#
# The password of a database belongs into ~/.pgpass: a command line can be seen by others. The same
# command, given again, resumes the study.
#SBATCH --job-name=amcl-search
#SBATCH --array=0-7
#SBATCH --ntasks=1
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A-%a.txt
set -euo pipefail

if (($# == 0)); then
    echo "usage: sbatch search.sh STUDY [OPTIONS OF amcl search], as in --data FOLDER" >&2
    exit 2
fi
study=$1
shift
mkdir -p "$study"
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # srun no longer takes it from sbatch
srun amcl search "$@" \
    --storage "${STORAGE:-$study/trials.journal}" \
    --study "$(basename "$study")" \
    --out "$study/worker-$SLURM_ARRAY_TASK_ID"
