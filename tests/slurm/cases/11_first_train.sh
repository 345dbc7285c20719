# The first example, as it is on disk, with a text at hand and short sequences: 20 steps on 2 nodes x 2 tasks are those of
# local ranks.
mkdir data
cp corpus.txt data/kjv.txt
short=(--set train.iterations=20 --set model.seq_length=64 --set train.lr.warmup=5 --set eval.every=0 --set checkpoint.every=0)
job=$(sbatch --parsable "$here/../../examples/first_train.lua" "${short[@]}")
railyard run "$here/../../examples/first_train.lua" --ranks 4 "${short[@]}" --run-dir reference >reference.txt 2>&1
until_true 180 finished "$job"
check [ "$(why runs/first-train)" = finished ]
check [ "$(losses runs/first-train | wc -l)" -eq 20 ]
check same_losses reference runs/first-train
says 'launched 4 ranks' "slurm-$job.out"
