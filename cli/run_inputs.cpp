#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/run_inputs.hpp>

#include <mailgrad/data/files.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/custom_rule.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace mailgrad {

namespace {

/// The plug-ins with policies, cures and update rules.
std::vector<input_file> plugin_files_of(const run_inputs& in) {
  std::vector<input_file> files;
  for (const std::string& file : plugins_of_policy(in.policy)) files.push_back({"--policy", file});
  for (const std::string& file : plugins_of_cure(in.cure)) files.push_back({"--cure", file});
  for (const std::string& optimizer : in.optimizers)
    if (const std::string file = optimizer.substr(0, optimizer.find(':')); names_a_plugin(file))
      files.push_back({"--optimizer", file});
  return files;
}

} // namespace

std::vector<input_file> files_of(const run_inputs& in) {
  std::vector<input_file> all{{"--model", in.model}};
  if (!in.data.empty())
    for (const auto& file : find_files(in.data, {}).all()) all.push_back({"--data", file});
  if (!in.load.empty()) all.push_back({"--load", in.load});
  for (const input_file& plugin : plugin_files_of(in)) all.push_back(plugin);
  if (in.replay) all.push_back({"the recording", in.replay->name});
  return all;
}

void require_no_input(const std::string& option, const std::string& path,
                      const std::vector<input_file>& inputs) {
  for (const input_file& in : inputs) {
    std::error_code nothing_there;
    if (!path.empty() && std::filesystem::equivalent(path, in.path, nothing_there))
      throw std::invalid_argument(
          fmt::format("{} and {} both name '{}'; name another file to write", option, in.option, path));
  }
}

void announce_plugins(const run_inputs& in) {
  if (!in.replay) return;
  for (const input_file& plugin : plugin_files_of(in)) {
    const std::string sum = require_recorded_plugin(*in.replay, plugin.path);
    say_line("loading the plug-in of the recording: " + plugin.path + ", SHA-256 " + sum);
  }
}

} // namespace mailgrad
