#pragma once

#include <mailgrad/cli/commands/train_args.hpp>

namespace mailgrad {

// The lists in the help of `mailgrad train`. Each has a title, and a line for each entry.

std::string models();
std::string policies_and_cures();
std::string default_learning_rates();
/// An example of a model file, and the header that documents the format.
std::string model_file_format();
/// What `--help` says of the laws by which steps take time.
std::string delays_in_help();

// The table of the options of all commands that train, and of those that share some of them. Titles that are
// not set here are the caller's.

/// Workers of a run in virtual time.
inline constexpr std::uint64_t most_simulated = 1'000'000;

/// The options that `mailgrad train`, `serve` and `launch` have in common.
void add_options(option_table& t, train_args& w);
void add_processes(option_table& t, remote_args& w);    ///< --processes
void add_batches_sent(option_table& t, remote_args& w); ///< --send-batches
void add_wire(option_table& t, remote_args& w);         ///< --wire
void add_server(option_table& t, remote_args& w);       ///< those of a server, with the next two
void add_patience(option_table& t, remote_args& w);     ///< --when-alone and --heartbeat
void add_keys(option_table& t, std::string& keys);      ///< --keys
void add_launch(option_table& t, launch_args& w);
/// Those of `mailgrad lab run`.
void add_lab_run(option_table& t, train_args& w);

// Parts of these, for other commands.
void add_table_form(option_table& t, table_args& w); ///< --header, --delimiter and --decimal
void add_table(option_table& t, table_args& w);      ///< all options on tables
void add_spanning(option_table& t, spanning_args& w);
void add_checkpoints(option_table& t, checkpoint_args& w);
void add_observing(option_table& t, train_args& w); ///< --staleness-csv, --trace and --sample-gap
void add_metrics(option_table& t, train_args& w);   ///< lines during a run
void add_live(option_table& t, live_args& w);
void add_local_data(option_table& t, std::string& data, std::uint64_t& limit); ///< --data of a worker
void add_plugins(option_table& t, std::vector<std::string>& files);            ///< --plugin of a worker

/// Whether an option of a command that trains, such as "--batch", is of one of these kinds.
bool is_of(std::string_view option, unsigned kinds);

} // namespace mailgrad
