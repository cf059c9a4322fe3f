#!/bin/sh
# Runs a sweep in shards as an array of jobs of Slurm: sbatch --array=1-16 slurm.sh SWEEP.toml DIR
#
# DIR and the sweep are on a file system that all nodes see. A job that is requeued goes on where it was. When all have ended:
#     wharf sweep merge DIR --html sweep.html
#SBATCH --job-name=wharf-sweep
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --output=%x-%A-%a.log
set -eu
sweep=$1 out=$2

# The array's tasks have to be numbered from 1.
exec "${WHARF:-wharf}" sweep run "$sweep" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --resume \
  --jobs "$SLURM_CPUS_PER_TASK" --out "$out"
