# The same without spares: Slurm is asked for other nodes, and the run goes on there.
reference "${long[@]}"
job=$(sbatch --parsable --requeue job.lua "${long[@]}" --set run.timeout=15)
until_true 90 reached runs/tiny 55
victim=$(sed -n 's/.*"node": "\(node[0-9]*\)".*/\1/p' runs/tiny/placement-1.json | sort -u | grep -v "$(batch_host "$job")" | head -n 1)
begin=$(now_ms)
"$here/sandbox" kill-node "$victim"
until_true 180 test -e runs/tiny/placement-2.json
printf '= a dead node, no spare: training again after %d ms\n' $(($(now_ms) - begin))
until_true 300 finished "$job"
"$here/sandbox" start-node "$victim"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
until_true 60 up "$victim"
