# A node that is the cause of two failures is left out, and the spare takes its place.
reference "${long[@]}"
job=$(sbatch --parsable --nodes=3 --ntasks-per-node=2 --no-kill job.lua "${long[@]}" --set run.spare_nodes=1)
on_node() { railyard status --stacks --json runs/tiny | grep "\"host\":\"$1\"" | sed -n 's/.*"pid":\([0-9]*\),.*/\1/p' | head -n 1; }
until_true 90 reached runs/tiny 55
victim=$(sed -n 's/.*"node": "\(node[0-9]*\)".*/\1/p' runs/tiny/placement-1.json | sort -u | tail -n 1)
check signal_pid KILL "$(on_node "$victim")"
until_true 90 test -e runs/tiny/placement-2.json
until_true 90 reached runs/tiny $(($(last_step runs/tiny) + 30))
check signal_pid KILL "$(on_node "$victim")"
until_true 90 test -e runs/tiny/placement-3.json
until_true 300 finished "$job"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
says "$victim has failed twice: a spare node takes its place" "slurm-$job.out"
check [ "$(grep -c "\"$victim\"" runs/tiny/placement-2.json)" -eq 2 ]
check [ "$(grep -c "\"$victim\"" runs/tiny/placement-3.json)" -eq 0 ]
