#include <mailgrad/cli/commands/resumed_words.hpp>

#include <mailgrad/cli/commands/checkpoint_words.hpp>
#include <mailgrad/cli/output/recorded_words.hpp>
#include <mailgrad/cli/wrong_option.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace mailgrad {

namespace {

using words_list = std::vector<std::string>;

/// Only `mailgrad serve` has these.
constexpr std::initializer_list<const char*> of_server{
    "--listen",     "--shard-hosts", "--devices-per-worker", "--seats", "--wait-for-workers",
    "--when-alone", "--keys"};

/// "--save=x" and "--save" name the same option.
std::string_view name_of_word(std::string_view word) { return word.substr(0, word.find('=')); }

void drop(words_list& words, std::string_view option) {
  std::erase_if(words, [&](const std::string& word) { return name_of_word(word) == option; });
}

bool has(const words_list& words, std::string_view option) {
  return std::ranges::find(words, option, name_of_word) != words.end();
}

/// Erases these options, but for those that are given now.
void erase_kept(words_list& words, const words_list& given, std::initializer_list<const char*> options) {
  for (const char* option : options)
    if (!has(given, option)) drop(words, option);
}

train_words values_of(const words_list& words, const checkpoint& from) {
  CLI::App parser;
  train_words values;
  add_options(parser, values);
  add_processes_option(parser, values.remote);
  add_send_batches_flag(parser, values.remote);
  add_wire_option(parser, values.remote);
  add_listen_options(parser, values.remote);
  try {
    parser.parse(words_list(words.rbegin(), words.rend())); // in reverse order
  } catch (const CLI::ParseError& e) {
    throw std::invalid_argument("checkpoint '" + from.path().string() + "': " + explain(parser, e));
  }
  return values;
}

/// The workers of a run of another command become those that join.
words_list for_server(words_list words, const words_list& given, const checkpoint& from,
                      const train_words& w) {
  checkpoint_card card;
  from.part("run")->field("card", card);
  erase_kept(words, given, {"--processes", "--devices", "--send-batches", "--workers"});
  if (!has(words, "--workers")) words.push_back(fmt::format("--workers={}", card.workers));
  if (!has(words, "--listen")) words.push_back("--listen=" + w.remote.listen);
  return words;
}

/// The workers of a server become those of this process, on as many devices, or those that it starts.
words_list for_one_program(words_list words, const words_list& given, const checkpoint& from) {
  train_words served = values_of(words, from);
  served.remote.serve = true;
  words = in_one_process(std::move(words), served);
  if (has(given, "--processes"))
    for (const char* option : {"--devices", "--workers"}) drop(words, option);
  for (const std::string& word : given) {
    drop(words, name_of_word(word));
    words.push_back(word);
  }
  return words;
}

} // namespace

words_list words_of_run(const CLI::App& parser, const train_words& w) {
  const bool keeps = !w.checkpoints.folder.empty() || !w.checkpoints.resume.empty();
  words_list without{"quiet", "live", "live-token", "live-control"};
  if (keeps)
    without.emplace_back("resume");
  else
    without.insert(without.end(), {"report", "save", "staleness-csv", "trace", "record", "metrics",
                                   "tensorboard", "metrics-every", "evaluate-every"});
  words_list words = given_words(parser, without);
  if (w.remote.launch) return in_one_process(std::move(words), w);
  if (w.remote.serve && !has(words, "--listen") && w.checkpoints.resume.empty())
    words.push_back("--listen=" + w.remote.listen);
  return words;
}

words_list in_one_process(words_list words, const train_words& w) {
  if (!w.remote.any()) return words;
  for (const char* option : of_server) drop(words, option);
  for (const char* option : {"--processes", "--wire", "--workers", "--devices", "--send-batches",
                             "--rendezvous", "--meet-within", "--transport"})
    drop(words, option);
  const std::uint32_t each = devices_elsewhere(w);
  std::string devices;
  for (std::uint32_t d = 0; d < each * workers_elsewhere(w); ++d)
    devices += fmt::format("{}cpu:{}", d == 0 ? "--devices=" : ",", d % each);
  words.push_back(devices);
  if (each > 1) words.push_back(fmt::format("--workers={}", workers_elsewhere(w)));
  return words;
}

resumed_words resumed_from(const checkpoint& from, const words_list& given, const train_words& w) {
  const bool serves = w.remote.serve && !w.remote.launch;
  const bool served = has(words_to_resume(from, {}), "--listen"); // stands there in any case
  words_list words = words_to_resume(from, given);
  if (serves && !served) words = for_server(std::move(words), given, from, w);
  if (!serves && served) words = for_one_program(std::move(words), given, from);
  if (w.remote.launch) drop(words, "--processes");
  if (w.remote.launch || (!serves && values_of(words, from).remote.processes == 0))
    erase_kept(words, given, {"--wire", "--send-batches"});
  resumed_words all{values_of(words, from), words};
  all.values.load.clear(); // that run has begun with these
  all.values.quiet = w.quiet;
  all.values.live = w.live;
  all.values.remote.serve = serves;
  if (!w.remote.launch) return all;
  all.values.remote = w.remote;
  all.values.workers = w.workers;
  all.values.devices = w.devices;
  return all;
}

} // namespace mailgrad
