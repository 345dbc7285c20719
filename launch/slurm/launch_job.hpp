// A run inside a Slurm allocation: srun (or mpirun where srun serves no PMIx), restarts, requeue.
#pragma once

#include <string>
#include <vector>

#include "launch/prepare.hpp"
#include "launch/slurm/allocation.hpp"

namespace railyard::launch {

// Starts the job's ranks on the allocation and returns the exit code. `program` is what each rank runs. UsageError
// before anything starts when the allocation does not fit the job.
int launch_in_allocation(const RunRequest& request, const lua::EvaluatedJob& job,
                         const std::vector<std::string>& program);

// After a run in a batch job stopped early with a checkpoint (exit 75): asks Slurm to start the job again when the job
// allows it and was stopped by --signal, its time limit or preemption.
void requeue_if_wanted(const JobSpec& job, int exit_code, int stop_signal);

}  // namespace railyard::launch
