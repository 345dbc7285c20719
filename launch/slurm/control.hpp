// Questions to Slurm's controller by its own clients (scontrol, squeue), each with a time-out: a controller that does
// not answer must not stop a run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace railyard::launch {

// `scontrol show job ID`, as key -> value; empty when there is no answer.
[[nodiscard]] std::map<std::string, std::string> show_job(const std::string& job_id);
// The same from its text. Values that contain spaces (Command, WorkDir, StdOut) reach to the end of their line.
[[nodiscard]] std::map<std::string, std::string> parse_job(const std::string& text);

// The job script as it was submitted, without its arguments: the batch step runs a spooled copy. Nothing when unknown.
[[nodiscard]] std::optional<std::string> submitted_script(const std::map<std::string, std::string>& job);

// Seconds until the job's time limit; nothing when there is no limit or no answer.
[[nodiscard]] std::optional<double> seconds_left(const std::string& job_id);
// "1-02:03:04", "03:04" to seconds; nothing for UNLIMITED and the like.
[[nodiscard]] std::optional<double> parse_duration(const std::string& text);

// The nodes that the job still has; SLURM_JOB_NODELIST is not updated when one dies.
[[nodiscard]] std::vector<std::string> live_nodes(const std::string& job_id);

// Whether the job should be started again after it has saved: it is a batch job that may be requeued and was stopped by
// SIGUSR1 (--signal), its time limit or preemption; not by scancel, nor by a person's SIGTERM.
[[nodiscard]] bool should_requeue(const std::map<std::string, std::string>& job, int stop_signal);
// Whether a job of higher priority takes the job's place.
[[nodiscard]] bool was_preempted(const std::map<std::string, std::string>& job);
// Whether Slurm may start the job again at all: it is a batch job with requeueing allowed.
[[nodiscard]] bool may_requeue(const std::map<std::string, std::string>& job);
// `scontrol requeue`; false, with a line on standard error, when Slurm refuses. Slurm then ends this process.
bool requeue(const std::string& job_id);

}  // namespace railyard::launch
