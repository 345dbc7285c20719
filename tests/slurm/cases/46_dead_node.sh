# kill -9 of a whole node, slurmd and ranks: a spare takes its place within the same job (run.spare_nodes, --no-kill).
reference "${long[@]}"
job=$(sbatch --parsable --nodes=3 --ntasks-per-node=2 --no-kill job.lua "${long[@]}" --set run.spare_nodes=1 --set run.timeout=15)
until_true 90 reached runs/tiny 55
victim=$(sed -n 's/.*"node": "\(node[0-9]*\)".*/\1/p' runs/tiny/placement-1.json | sort -u | grep -v "$(batch_host "$job")" | head -n 1)
begin=$(now_ms)
"$here/sandbox" kill-node "$victim"
until_true 120 test -e runs/tiny/placement-2.json
printf '= a dead node: training again after %d ms\n' $(($(now_ms) - begin))
until_true 300 finished "$job"
"$here/sandbox" start-node "$victim"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
says '"reason": "node_lost"' runs/tiny/why.json
says "\"$victim\"" runs/tiny/why.json
check [ -z "$(grep -o "\"$victim\"" runs/tiny/placement-2.json)" ]
until_true 60 up "$victim"
