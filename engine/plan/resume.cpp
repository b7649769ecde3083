#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/record/recording_file.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/options/spelling.hpp>

#include <fmt/format.h>

#include <charconv>
#include <exception>
#include <iterator>

namespace mailgrad {

namespace {

[[noreturn]] void refuse(const checkpoint& from, const std::string& why) {
  throw recording_error(fmt::format("checkpoint '{}': {}", from.path().string(), why));
}

/// Where a recording may lie that was to become `path`.
std::vector<std::string> files_of(const std::string& path) {
  const std::string real = replaced_file::without_links(path);
  return {replaced_file::partial(real), real + std::string(recording_file::before_suffix), real,
          real + std::string(recording_file::killed_suffix)};
}

struct reported_plugin {
  std::string file;
  std::string sha256;
};

std::vector<reported_plugin> plugins_in(const run_facts& facts) {
  std::vector<reported_plugin> all;
  for (const auto& [what, is] : facts)
    if (std::string file = plugin_of_fact(what); !file.empty()) all.push_back({std::move(file), is});
  return all;
}

/// How well a plug-in here fits one of the checkpoint. The same bytes tell it from another of its name.
enum class likeness : std::uint8_t { none, of_name, of_path, of_bytes, of_both };

likeness likeness_of(const reported_plugin& was, const reported_plugin& is) {
  if (std::filesystem::path(was.file).filename() != std::filesystem::path(is.file).filename())
    return likeness::none;
  if (was.sha256 == is.sha256) return was.file == is.file ? likeness::of_both : likeness::of_bytes;
  return was.file == is.file ? likeness::of_path : likeness::of_name;
}

/// Takes the one of `left` that fits best out of it; null if none does.
std::optional<reported_plugin> taken_for(const reported_plugin& was, std::vector<reported_plugin>& left) {
  const auto best =
      std::ranges::max_element(left, {}, [&](const reported_plugin& is) { return likeness_of(was, is); });
  if (best == left.end() || likeness_of(was, *best) == likeness::none) return std::nullopt;
  reported_plugin found = std::move(*best);
  left.erase(best);
  return found;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  text = with_name_replaced(std::move(text), from, to);
}

void rename(const std::string& from, const std::string& to, checkpoint_card& card, kept_schedule& schedule) {
  for (auto& [what, is] : card.facts) {
    replace_all(what, from, to);
    replace_all(is, from, to);
  }
  replace_all(schedule.policy, from, to);
  for (auto& [step, policy] : schedule.planned) replace_all(policy, from, to);
  for (auto& [policy, why] : schedule.asked) replace_all(policy, from, to);
}

/// The updates by which the schedule counts.
std::uint64_t updates_in(const checkpoint& from) {
  std::uint64_t updates = 0;
  if (from.has(block_part)) from.part(block_part)->field("updates", updates);
  if (!from.has("shard 0")) return updates;
  std::uint64_t version = 0;
  const auto shard = from.part("shard 0");
  shard->group("shard", [&] { shard->field("version", version); });
  return std::max(updates, version);
}

/// A line for the user if the schedule of a run that goes on takes the learning rate to 0 long before its
/// end; else empty. How many updates the run will make is reckoned from those that it has made.
std::string rate_when_resumed(const run_plan& plan, const resumed_run& resumed) {
  const learning_rate_schedule& schedule = plan.options.optimizer.schedule;
  const std::optional<std::uint64_t> last = last_step_above_zero(schedule);
  const std::uint64_t done = resumed.card.steps;
  if (!last || done == 0 || plan.steps <= done) return {};
  // Workers that take local steps count their own.
  const double updates = plan.options.local_steps > 0 ? static_cast<double>(done) / plan.workers()
                                                      : static_cast<double>(updates_in(*resumed.from));
  const double all = updates * static_cast<double>(plan.steps) / static_cast<double>(done);
  constexpr double much = 1.01; // the number of updates is known about so well
  if (all < much * static_cast<double>(*last)) return {};
  return fmt::format(
      "the learning rate is 0 after {} updates by --schedule {}, and this run goes on to about "
      "{:.0f}: to learn more, save its weights and begin a run by --load with another schedule",
      *last, to_string(schedule), all);
}

/// Facts that may differ: how long the run is, where it began, and which build computes it.
constexpr std::array<std::string_view, 9> free_facts{
    "epochs",      "steps",        first_weights_fact,    computers_fact, updaters_fact,
    products_fact, precision_fact, "version of mailgrad", "arithmetic"};

[[noreturn]] void refuse(const run_plan& plan, const std::string& why) {
  throw std::invalid_argument(fmt::format("checkpoint '{}' {}", plan.options.resume->path().string(), why));
}

std::string replayed_by(const run_plan& plan) {
  const recording* const replay = plan.options.replay.get();
  if (!replay) return {};
  return replay->killed ? "killed" : replay->end.parameters_sha256;
}

/// Whether the models differ in nothing but the samples of a mini-batch, of which there were so many.
bool differs_by_batch_alone(const run_plan& plan, const run_facts& was) {
  const std::string told = reported_fact(was, batch_fact);
  std::size_t batch = 0;
  const auto [rest, wrong] = std::from_chars(told.data(), told.data() + told.size(), batch);
  if (wrong != std::errc() || batch == 0 || batch == plan.request.batch) return false;
  try {
    const model_request then = request_for(*plan.data, batch);
    model_request request = plan.request;
    request.batch = then.batch;
    request.nonzeros = then.nonzeros;
    return model_digest(plan.model, request, plan.options) == reported_fact(was, model_fact);
  } catch (const std::exception&) {
    return false; // this model does not take such batches
  }
}

void require_same_facts(const run_plan& plan, const checkpoint_card& card) {
  std::vector<std::string_view> free(free_facts.begin(), free_facts.end());
  if (differs_by_batch_alone(plan, card.facts)) free.push_back(model_fact);
  std::string found = differences(card.facts, facts_and_names(plan), free);
  if (card.shards != plan.options.shards)
    found += fmt::format("{}--shards was {}, and is {} here", found.empty() ? "" : "; ", card.shards,
                         plan.options.shards);
  if (!found.empty()) refuse(plan, "is of another run: " + found);
}

template <class T>
void try_to_keep(T& x) {
  saved_fields scratch;
  x.keep(scratch);
}

/// What a careful reader of the checkpoint's tests misses in its folder; empty if nothing is missing.
std::string missing_best(const resumed_run& resumed) {
  const judged_tests& told = resumed.tests;
  if (!told.lowest_loss || (resumed.best && resumed.best->test.loss <= *told.lowest_loss)) return {};
  return fmt::format("the weights of the best test so far, of loss {:g} after step {}, are not in {}; {}",
                     *told.lowest_loss, told.lowest_at, folder_of(resumed.from->path()).string(),
                     resumed.best ? fmt::format("the best that are left are those of loss {:g} after step {}",
                                                resumed.best->test.loss, resumed.best->test.steps)
                                  : "the run keeps the best of those that it tests from here on");
}

/// The best weights that the run has kept beside the checkpoint, if any, by a test before it.
found_best best_of(const run_plan& plan, const tested_history& history) {
  found_best found = best_weights_in(plan.options.resume->path().parent_path(), history);
  if (found.best && found.best->weights.size() != plan.layout->size())
    refuse(plan, fmt::format("stands beside the best weights of another model, which has {} weights, not {}",
                             found.best->weights.size(), plan.layout->size()));
  return found;
}

/// Takes what was tested before the checkpoint: the best weights, and what patience has seen. If the run did
/// not ask for that, the lowest loss is that of the best weights, and the count begins anew.
void take_tests(const run_plan& plan, resumed_run& resumed) {
  const bool told = resumed.from->has(judged_tests_part);
  if (told) resumed.tests = resumed.from->object<judged_tests>(judged_tests_part);
  if (plan.options.keep == kept_weights::best) {
    found_best found = best_of(plan, resumed.history());
    resumed.best = std::move(found.best);
    std::ranges::move(found.passed_over, std::back_inserter(resumed.remarks));
    if (std::string missing = missing_best(resumed); !missing.empty())
      resumed.remarks.push_back(std::move(missing));
  }
  if (!told) {
    resumed.tests.steps = resumed.card.steps;
    if (resumed.best) resumed.tests.lowest_loss = resumed.best->test.loss;
    if (resumed.best) resumed.tests.lowest_at = resumed.best->test.steps;
  }
  if (!resumed.same_workers) resumed.tests.steps = 0; // their steps are counted anew
}

/// Requires that a run with this plan is the one that was recorded before its checkpoint. How long it is and
/// where it began may differ, and so may what workers compute on that have not come yet.
/// Errors  recording_error in one line with all that differs.
void require_goes_on(const recording& before, const run_plan& plan) {
  constexpr std::array<std::string_view, 3> of_the_beginning{"epochs", "steps", first_weights_fact};
  run_facts facts = facts_and_names(plan);
  const auto& elsewhere = plan.options.elsewhere;
  const bool workers_known = !elsewhere || !elsewhere->empty();
  if (workers_known && tells(before.header.facts, computers_fact) && !tells(facts, computers_fact))
    facts.emplace_back(computers_fact,
                       reported_fact(facts, computers_fact)); // the host, which a run does not tell
  const std::string found = differences(before.header.facts, facts, of_the_beginning);
  if (!found.empty())
    throw recording_error(fmt::format("recording '{}' cannot go on: {}", before.name, found));
}

/// A recording that goes on is repeated from its beginning, so nothing but the length of the run may differ.
std::shared_ptr<const recording> recording_to_go_on(const run_plan& plan, const resumed_run& resumed) {
  const auto require = [&plan](bool same_workers) {
    if (same_workers) return;
    throw recording_error(
        fmt::format("checkpoint '{}' is of a run with other workers, and a recording has the same ones from "
                    "its beginning to its end",
                    plan.options.resume->path().string()));
  };
  require(resumed.same_workers);
  auto before = recorded_before(*resumed.from, plan.options.record);
  require(before->header.workers == plan.workers());
  require_goes_on(*before, plan);
  return before;
}

/// With another number of workers, or with slots for more, each begins anew from the weights.
void require_workers_may_differ(const run_plan& plan, const checkpoint_card& card) {
  const std::string numbers = fmt::format("is of a run with {} workers, not {}", card.workers, plan.slots());
  if (plan.options.local_steps > 0 && card.workers != plan.slots())
    refuse(plan, numbers + "; local steps go on only with the same workers, which have weights of their own");
  if (plan.options.replay) refuse(plan, numbers);
}

/// Under hogwild alone weights are in a block of the host, or in shards on a GPU; elsewhere all begin anew.
void bring_to_other_place(run_plan& plan, resumed_run& resumed) {
  if (!plan.shares_block() || resumed.from->has("shard 0") == plan.has_shards()) return;
  resumed.same_workers = false;
  if (plan.has_shards())
    plan.first_weights =
        std::make_shared<const std::vector<float>>(kept_hogwild_weights(*resumed.from, plan.layout->size()));
}

/// A checkpoint of a run without anything left to train would tell of a shorter run than it is of, and so
/// would a recording. That of a run which was killed at its very end is still to be completed.
void leave_files_as_they_are(run_plan& plan, std::uint64_t done) {
  training_options& o = plan.options;
  o.checkpoints.folder.clear();
  const std::string partial = replaced_file::partial(replaced_file::without_links(o.record));
  std::error_code unknown;
  if (done > plan.steps || !std::filesystem::exists(partial, unknown)) o.record.clear();
}

/// What multiplied on GPUs until the checkpoint, if another version does now; else empty.
std::string other_products(const run_facts& before, const run_facts& now) {
  const auto find = [](const run_facts& facts) {
    const auto found = std::ranges::find(facts, products_fact, &run_facts::value_type::first);
    return found == facts.end() ? std::string() : found->second;
  };
  const std::string was = find(before), is = find(now);
  return was.empty() || is.empty() || was == is ? std::string() : was;
}

} // namespace

std::shared_ptr<const recording> recorded_before(const checkpoint& from, const std::string& path) {
  if (!from.has(recording_part))
    refuse(from, "its run was not recorded, so a recording from here on would lack what came before");
  const auto at = from.object<recording_cut>(recording_part);
  checkpoint_card card;
  kept_schedule schedule;
  const auto run = from.part("run");
  run->field("card", card);
  run->field("schedule", schedule);
  feeder_position feeder;
  from.part("feeder")->field("feeder", feeder);
  if (std::ranges::find(card.present, false) != card.present.end())
    refuse(from, "a worker was lost before it, and would join twice in the recording");
  std::vector<std::string> files = files_of(path);
  if (!at.file.empty() && std::filesystem::absolute(path) != at.file)
    std::ranges::copy(files_of(at.file), std::back_inserter(files));
  std::string first_failure;
  for (const std::string& file : files) {
    if (std::error_code unknown; !std::filesystem::is_regular_file(file, unknown)) continue;
    try {
      return std::make_shared<const recording>(
          part_before(read_recording(file), at, feeder.trained, schedule.done.size()));
    } catch (const std::exception& e) {
      if (first_failure.empty()) first_failure = e.what();
    }
  }
  if (first_failure.empty()) first_failure = fmt::format("there is no recording '{}'", at.file);
  refuse(from, first_failure);
}

/// Those that are told surely, by their bytes, take theirs first.
void name_plugins_as_here(const run_facts& here, checkpoint_card& card, kept_schedule& schedule) {
  std::vector<reported_plugin> left = plugins_in(here), all = plugins_in(card.facts);
  std::ranges::stable_partition(all, [&](const reported_plugin& was) {
    return std::ranges::any_of(
        left, [&](const reported_plugin& is) { return likeness_of(was, is) >= likeness::of_bytes; });
  });
  std::vector<std::pair<std::string, std::string>> names; // between, which no path has, and here
  for (const reported_plugin& was : all)
    if (const auto is = taken_for(was, left); is && is->file != was.file) {
      names.emplace_back(fmt::format("\x01{}\x01", names.size()), is->file);
      rename(was.file, names.back().first, card, schedule);
    }
  for (const auto& [between, file] : names) rename(between, file, card, schedule);
}

void require_keepable(const run_plan& plan) {
  const training_options& o = plan.options;
  if (o.checkpoints.folder.empty() && !o.resume) return;
  if (o.parameter_actor)
    throw std::invalid_argument(
        fmt::format("checkpoints: parameter actor '{}' keeps no state", o.parameter_actor->name));
  for (const scheduled_policy& s : plan.policies)
    if (const auto policy = s.policy.make()) try_to_keep(*policy);
  if (const auto cure = plan.cure.make({plan.slots(), 1, 1e-3})) try_to_keep(*cure);
}

std::shared_ptr<const folder_lock> take_checkpoint_folder(const training_options& o) {
  const std::filesystem::path resumed = o.resume ? o.resume->path() : std::filesystem::path();
  auto lock = std::make_shared<const folder_lock>(prepare_checkpoint_folder(o.checkpoints.folder, resumed));
  if (o.resume_newest && lies_in(o.checkpoints.folder, resumed)) require_newest(resumed);
  return lock;
}

checkpoint_card card_of(const run_plan& plan) {
  checkpoint_card card;
  card.workers = plan.slots();
  card.shards = plan.options.shards;
  card.facts = facts_and_names(plan);
  const training_options& o = plan.options;
  card.words = o.args_to_resume.empty() ? o.words : o.args_to_resume;
  card.args_of_server = o.args_of_server;
  card.folder_of_args = o.folder_of_args;
  card.replayed = replayed_by(plan);
  if (!plan.resumed) return card;
  card.elapsed = plan.resumed->elapsed().count();
  card.steps = plan.resumed->steps_before();
  card.lost = plan.resumed->lost();
  return card;
}

bool has_nothing_left(const run_plan& plan) {
  checkpoint_card card;
  plan.options.resume->part("run")->field("card", card);
  return card.steps >= plan.steps;
}

void plan_resume(run_plan& plan) {
  const checkpoint& from = *plan.options.resume;
  resumed_run resumed{plan.options.resume, {}, {}, {}};
  const auto run = from.part("run");
  run->field("card", resumed.card);
  run->field("schedule", resumed.schedule);
  from.part("feeder")->field("feeder", resumed.position);
  name_plugins_as_here(facts_and_names(plan), resumed.card, resumed.schedule);
  require_same_facts(plan, resumed.card);
  resumed.products_before = other_products(resumed.card.facts, facts_and_names(plan));
  const std::string remedy =
      fmt::format("is of a replay, which goes on by 'mailgrad replay RECORDING --resume {}'",
                  shell_word(from.path().string()));
  if (resumed.card.replayed != replayed_by(plan))
    refuse(plan, resumed.card.replayed.empty() ? "is of a run that was no replay"
                 : plan.options.replay         ? "is of the replay of another recording"
                                               : remedy);
  resumed.same_workers = resumed.card.workers == plan.workers() && plan.slots() == plan.workers();
  if (!resumed.same_workers) require_workers_may_differ(plan, resumed.card);
  bring_to_other_place(plan, resumed);
  if (!resumed.same_workers) resumed.position.trained.clear();
  plan.policies = {{0, policy_spec(resumed.schedule.policy, plan.slots())}};
  for (const auto& [step, policy] : resumed.schedule.planned)
    plan.policies.push_back({step, policy_spec(policy, plan.slots())});
  if (!plan.options.replay) plan.holds = switch_steps(plan.policies);
  plan.deal.mode = plan.first_policy().traits().deals_by_rank ? deal_mode::by_rank : deal_mode::on_demand;
  take_tests(plan, resumed);
  if (std::string rate = rate_when_resumed(plan, resumed); !rate.empty())
    resumed.remarks.push_back(std::move(rate));
  if (resumed.card.steps >= plan.steps) leave_files_as_they_are(plan, resumed.card.steps);
  if (!plan.options.record.empty()) plan.recorded_before = recording_to_go_on(plan, resumed);
  plan.resumed = std::move(resumed);
}

std::shared_ptr<saved_fields> resumed_run::worker(std::uint32_t rank) const {
  const bool counted = rank < card.counted.size() && card.counted[rank];
  return same_workers && counted ? from->part(fmt::format("worker {}", rank)) : nullptr;
}

std::vector<worker_report> resumed_run::books() const {
  std::vector<worker_report> all(card.workers);
  for (std::uint32_t r = 0; r < card.workers; ++r) {
    all[r].worker = {r};
    if (const auto part = worker(r)) part->field("report", all[r]);
  }
  return all;
}

std::vector<bool> resumed_run::lost() const { return same_workers ? card.lost : std::vector<bool>(); }

worker_share resumed_run::done() const {
  worker_share all;
  for (const worker_report& x : books()) {
    all.steps += x.steps;
    all.samples += x.samples;
    all.waited += x.waited();
  }
  return all;
}

std::uint64_t resumed_run::written() const {
  std::uint64_t updates = 0;
  for (const worker_report& x : books()) updates += x.applied;
  return updates;
}

std::uint64_t resumed_run::steps_before() const { return card.steps - std::min(card.steps, done().steps); }

tested_history resumed_run::history() const {
  const std::uint64_t named = steps_named_in(folder_of(from->path()), from->path());
  const bool told = from->has(judged_tests_part);
  return {std::max(card.steps, named), told ? tests.lowest_loss : std::nullopt};
}

instant resumed_run::elapsed() const { return same_workers ? instant{card.elapsed} : instant{0}; }

std::shared_ptr<saved_fields> resumed_run::shard(std::uint32_t index) const {
  if (!from->has("shard 0") && from->has(block_part)) return nullptr; // all weights are in the block
  return from->part(fmt::format("shard {}", index));
}

void take_computers(run_plan& plan, std::vector<worker_computer> told) {
  if (any_has_gpu(told)) plan.sums_apart = false;
  plan.options.elsewhere = std::move(told);
  if (plan.options.replay) require_same_run(*plan.options.replay, plan.options, facts_and_names(plan));
  if (plan.recorded_before) require_goes_on(*plan.recorded_before, plan);
  if (plan.resumed)
    plan.resumed->products_before = other_products(plan.resumed->card.facts, facts_and_names(plan));
}

} // namespace mailgrad
