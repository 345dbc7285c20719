# The scratch disk that takes the checkpoints fills up in the middle: the run ends within seconds with one line that names
# rank and node, nothing that was saved is lost, and it goes on once there is room. A node whose own scratch is full is
# named before the ranks start.
reference "${long[@]}"
scratch=(--set "checkpoint.dir=$small/ckpt")
job=$(sbatch --parsable job.lua "${long[@]}" "${scratch[@]}")
until_true 90 reached runs/tiny 60
begin=$(now_ms)
head -c 100M /dev/zero >"$small/fill" 2>fill.txt || true
says 'No space left' fill.txt
until_true 60 finished "$job"
printf '= a full disk: ended after %d ms\n' $(($(now_ms) - begin))
check [ "$(why runs/tiny)" = file_system ]
says '"detail": "rank [0-3] on node[1-4]: .*No space left on device' runs/tiny/why.json
check [ "$(grep -c '^railyard: .*No space left on device' "slurm-$job.out")" -eq 1 ]
rm "$small/fill"
"$here/sandbox" on node3 sh -c 'mkdir -p /tmp/full-scratch && mount -t tmpfs -o size=64k tmpfs /tmp/full-scratch'
again=$(TMPDIR=/tmp/full-scratch sbatch --parsable -w node1,node3 job.lua "${long[@]}" "${scratch[@]}")
until_true 300 finished "$again"
check same_losses reference runs/tiny
says 'resumed from .*/ckpt/step-' "slurm-$again.out"
says 'node3: /tmp/full-scratch has 0.0 GiB free.*\[scratch_full\]' "slurm-$again.out"
"$here/sandbox" on node3 umount /tmp/full-scratch
