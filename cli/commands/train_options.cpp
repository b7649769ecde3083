#include <mailgrad/cli/commands/train_options.hpp>

#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>

#include <fmt/ranges.h>

namespace mailgrad {

std::string models() {
  std::string text = "Models, with their settings, as in \"mlp:hidden=100,activation=tanh\":\n";
  for (const built_in_form& form : built_in_forms()) text += help_entry(form.name, form.what);
  return text + '\n';
}

std::string policies_and_cures() {
  std::string text = "Policies:\n";
  for (const policy_form& form : policy_forms()) text += help_entry(form.text, form.what);
  text += help_entry("auto", "begins with sync, changes to async when workers wait long at the barrier, and "
                             "back when stale gradients do harm; the learning rate does not change, so take "
                             "one that async bears; with settings: auto:window=100,wait=0.1,harm=0.2");
  text += '\n' +
          wrapped("Cures of staleness. The gap is the number of updates between the weights that a gradient "
                  "was computed from and those it is applied to. M is the number of workers.") +
          '\n';
  for (const cure_form& form : cure_forms())
    text += help_entry(form.text, fmt::format("{} ({})", form.what, form.source));
  return text;
}

std::string default_learning_rates() {
  std::string rates;
  for (const std::string_view name : optimizer_names())
    rates += fmt::format("{} {:g}, ", name, base_learning_rate(parse_optimizer(name)));
  rates.replace(rates.size() - 2, 2, "; a plug-in has its own");
  return "Default learning rates:\n  " + wrapped(rates, help_width - 2, 2) + '\n';
}

std::string model_file_format() {
  return "A model file looks like this; mailgrad/graph/models/model_file.hpp explains all layers and "
         "settings:\n"
         "  {\"layers\": [{\"dense\": {\"units\": 128, \"activation\": \"relu\"}}, {\"dropout\": {}}, "
         "{\"dense\": {}}]}\n";
}

std::string delays_in_help() {
  std::string text = "Delays, the seconds that each step of a worker takes:\n";
  for (const delay_form& form : delay_forms()) text += help_entry(form.text, form.what);
  return text +
         wrapped("Seconds (mean, shift, least, base, sigma of half-normal, time) may be formulas of i, the "
                 "number of the worker from 1, and n, how many there are: exp:mean=sqrt(i). A setting that "
                 "is left out has the value above.") +
         '\n';
}

namespace {

constexpr std::uint64_t most_actors =
    std::numeric_limits<std::uint32_t>::max(); // ranks and shards have 32 bits
constexpr std::uint64_t most_gibibytes = std::uint64_t{1} << 20;
constexpr double most_rate = std::numeric_limits<float>::max();
constexpr std::uint32_t most_processes = 256;
constexpr std::uint32_t most_seconds = 604'800; // a week
constexpr std::uint32_t longest_meeting_s = 86'400;

/// Where help lists models, policies and the like: "as listed below", or in the help of which command.
std::string where_listed(const train_args& w) {
  return w.remote.serve ? "as 'mailgrad help train' lists" : "as listed below";
}

} // namespace

void add_table_form(option_table& t, table_args& w) {
  t.add("--header", w.header, one_of({"auto", "yes", "no"}), shown, of_data,
        "For CSV: whether the first line names the columns; auto decides by the lines below it");
  t.add("--delimiter", w.delimiter, path("CHARACTER"), of_data,
        "For CSV: the character between two fields, or tab; by default the comma, semicolon, tab or bar that "
        "fits the first lines best");
  t.add("--decimal", w.decimal, one_of({"auto", "point", "comma"}), shown, of_data,
        "For CSV: the sign that begins the fraction of a number; auto decides by the numbers of each column, "
        "or takes that of training");
}

void add_table(option_table& t, table_args& w) {
  t.add("--label", w.label, path("COLUMN"), of_data,
        "For CSV: the column to learn: its name in the header, its number from 1, first or last; by default "
        "the one whose name is label, class or target, or the first if it holds words and the last does not; "
        "otherwise the last");
  add_table_form(t, w);
  t.add("--missing", w.missing, one_of({"refuse", "drop", "mean"}), shown, of_data,
        "For CSV: what becomes of a row without some value (an empty field, ?, NA, N/A, NaN or null): refuse "
        "the file, drop the row, or take the mean of the column over the training part");
  t.add("--categories", w.categories, one_each, value_name("COLUMN,..."), of_data,
        "For CSV: columns of categories that are written as numbers, between commas. Columns of words are "
        "taken for categories anyway: each category becomes an input that is 1 or 0. A name with a comma in "
        "it stands in double quotes");
  t.add("--leave-out", w.left_out, one_each, value_name("COLUMN,..."), of_data,
        "For CSV: columns that are not learnt from, such as names and keys, between commas");
  t.add("--features", w.features, whole_number(1, std::numeric_limits<std::int32_t>::max()),
        value_name("NUMBER"), of_data,
        "For libsvm: how many columns a row has, where the test part, or rows to predict later, have more "
        "than the training part shows");
  t.add("--pictures", w.pictures, one_of({"auto", "grey", "rgb"}), shown, of_data,
        "For PNG and JPEG pictures: grey, rgb, or auto, which takes colours if the first picture has some");
  t.add("--test-fraction", w.test_fraction, number(0, 1), value_name("NUMBER"), of_data,
        "The part of a file to test on, between 0 and 1, even if a test file lies beside it; drawn by "
        "--seed, from each class in proportion. By default 0.2 where there is no test file, and 0.1 of a "
        "text, from its end");
}

void add_spanning(option_table& t, spanning_args& w) {
  t.title("Models over several devices");
  t.add("--replicate", w.replicate,
        "Let a model span several devices: each computes the whole model on its part of the batch, with "
        "shared variables");
  t.add("--pipeline", w.pipeline, excludes("--replicate"),
        "Let a model span several devices: each computes one stage of it; the stages have as equal work as "
        "possible");
}

void add_checkpoints(option_table& t, checkpoint_args& w) {
  t.add("--checkpoint", w.folder, path("DIR"), of_checkpoints,
        "Keep the state of the run in this folder while it goes on, so that --resume can go on from there "
        "after an interruption");
  t.add("--checkpoint-every", w.every, shown, of_checkpoints,
        "How often: after so many mini-batches, such as 500, or so much time, such as 30s, 10min or 2h");
  t.add("--keep", w.keep, whole_number(1), shown, of_checkpoints,
        "How many checkpoints stay; older ones are removed, on a full disk more of them");
  t.add("--resume", w.resume, path("DIR"), of_resuming,
        "Go on from the newest whole checkpoint in this folder, or from that file, with the options of that "
        "run; those given now take their place");
  t.add("--same-outputs", w.same_outputs, needs("--resume"), of_resuming,
        "With --resume: also write the files that the run wrote, such as its --report; without it, only "
        "those that are named now");
  t.add("--plugin", w.plugins, path("FILE"), one_each, needs("--resume"), of_resuming,
        "With --resume: this plug-in of the run may be loaded. Several may be named");
  t.parser().parse_complete_callback([&parser = t.parser()] { // a run that is resumed has a folder
    if (parser.count("--checkpoint") + parser.count("--resume") > 0) return;
    for (const char* option : {"--checkpoint-every", "--keep"})
      if (parser.count(option) > 0) throw CLI::RequiresError(option, "--checkpoint");
  });
}

void add_observing(option_table& t, train_args& w) {
  t.add("--staleness-csv", w.outputs.staleness_csv, path("FILE"), of_looks,
        "Write how often each gap of staleness occurred, a line for each shard, worker and gap");
  t.add("--trace", w.outputs.trace, path("FILE"), of_looks,
        "Write what each actor did and waited for, as a timeline for ui.perfetto.dev; at most the first " +
            std::to_string(traced_events) + " events of each actor");
  t.add("--sample-gap", w.run.sample_gap, whole_number(0), shown, of_looks,
        "Compare one in N gradients of a worker with a fresh gradient of its batch: how far the weights had "
        "moved, and the cosine of both gradients. Each comparison costs a step. 0: never; not for hogwild");
}

void add_live(option_table& t, live_args& w) {
  const auto take = [&w](const std::vector<std::string>& given) {
    w.wanted = true;
    w.address = given.empty() ? "" : given.front();
  };
  t.add("--live", take, value_name("[HOST:PORT]"), of_display,
        "Show the run on a page in the browser while it goes on; its address is printed. By default "
        "127.0.0.1:8080, or another port if that is taken. Off this machine a token is asked for, which "
        "stands in the printed address");
  t.add("--live-token", w.token_file, path("FILE"), needs("--live"), of_display,
        "Take the token from this file, which only its owner may read");
  t.add("--live-control", w.control, needs("--live"), of_display,
        "Let the page switch the policy, take a checkpoint and stop the run; whoever uses it needs the "
        "token, also on this machine");
}

void add_metrics(option_table& t, train_args& w) {
  t.add("--metrics", w.outputs.metrics, path("FILE"), of_looks,
        "Write what is measured during the run to this file, a line at a time: JSON lines, or CSV if its "
        "name ends in .csv; an older file is kept as FILE.old");
  t.add("--tensorboard", w.outputs.tensorboard, path("DIR"), of_looks,
        "Write the same figures and the staleness of all gradients as an event file into this folder, which "
        "TensorBoard shows during the run");
  t.add("--metrics-every", w.metrics_every, interval_text(), shown, value_name("N|TIME|epoch"),
        of_pace | of_looks,
        "How often such lines and events are made, also for the curve in the report: a time as 500ms, 1s or "
        "10min, a number of steps of all workers together, or epoch");
}

void add_keys(option_table& t, std::string& keys) {
  t.title("Processes");
  t.add("--keys", keys, path("DIR|FILE"), of_server | of_processes,
        "Encrypt, and know each other by the keys of this folder, which 'mailgrad keys new' makes, or by "
        "this file with a token; without it only processes of this machine meet");
}

void add_patience(option_table& t, remote_args& w) {
  t.title("Processes");
  t.add("--when-alone", w.when_alone, one_of_or_seconds({"end", "wait"}, most_seconds),
        value_name("end|wait|SECONDS"), shown, of_server | of_processes,
        "What the run does when all its workers are gone and there is something left to train: end, wait for "
        "another, or wait for so many seconds. A worker that was cut off or stopped tries to come back for a "
        "minute");
  t.add("--heartbeat", w.heartbeat, whole_number(50, net::timing::most_heartbeat.count()),
        value_name("MILLISECONDS"), shown, of_server | of_processes,
        "How often each process gives a sign of life; a worker of which none comes for six times as long is "
        "lost, and a parameter host for a minute. The server tells all others");
}

void add_local_data(option_table& t, std::string& data, std::uint64_t& limit) {
  t.add("--data", data, file_name(),
        "Cut mini-batches from this data set of this machine if it holds the samples of the run, so that "
        "they need not be sent: a name, folder or file as for 'mailgrad train'. It is read as the server "
        "reads its own; by default nothing is read");
  t.add("--data-limit", limit, whole_number(1, most_gibibytes), needs("--data"), shown,
        "The most memory, in GiB, that the samples of a file may take");
}

void add_plugins(option_table& t, std::vector<std::string>& files) {
  t.add("--plugin", files, path("FILE"), one_each,
        "Load this plug-in, which the run may then ask for: one of the same SHA-256 as that of the server. "
        "No other is ever loaded. Several may be named");
}

void add_server(option_table& t, remote_args& w) {
  t.title("Processes");
  t.add("--listen", w.listen, path("HOST:PORT|memory:NAME"), shown, of_server | of_processes,
        "Where workers find the run; 0.0.0.0 is every network of this machine, and port 0 any that is free; "
        "memory:NAME is the memory of this machine, for processes of this user");
  t.add("--shard-hosts", w.shard_hosts, whole_number(0, most_processes), shown, of_server | of_processes,
        "Leave the shards to so many processes that come by 'mailgrad shard --join'; 0 keeps them here");
  t.add("--devices-per-worker", w.devices, whole_number(1, most_processes), shown, of_server | of_processes,
        "How many devices each worker brings, over which its model spans by --replicate or --pipeline");
  t.add("--slots", w.slots, whole_number(1, most_processes), of_server | of_processes,
        "How many workers may be in the run at once, since more than --workers may join while it goes on; as "
        "many as --workers by default");
  t.add("--wait-for-workers", w.wait_for_workers, whole_number(1, most_seconds), value_name("SECONDS"),
        of_server | of_processes,
        "Give up if --workers have not joined within so many seconds; by default it waits for ever");
  add_patience(t, w);
  add_keys(t, w.keys);
}

void add_launch(option_table& t, launch_args& w) {
  t.title("Processes");
  t.add("--transport", w.transport, CLI::IsMember({"tcp", "mpi"}), shown, value_name("tcp|mpi"), of_processes,
        "What carries tensors and messages: tcp, or mpi, which takes what the cluster's MPI was set up for, "
        "such as InfiniBand, and ends all ranks when one dies");
  t.add("--all-reduce", w.all_reduce,
        "With --transport mpi and --policy sync: workers add their gradients up by MPI, and one of them "
        "sends the sum, so that rank 0 receives one gradient in a step and not one from every worker");
  t.add("--listen", w.listen, path("HOST:PORT"), of_processes | of_server,
        "Where rank 0 listens and the others find it; by default a free port, of this machine alone unless "
        "ranks on several hosts have --keys");
  t.add("--rendezvous", w.folder, path("DIR"), shown, of_processes,
        "A folder that every rank sees, in which rank 0 leaves its address in a file named after the run, "
        "unless --listen says host and port");
  t.add("--meet-within", w.bound_s, whole_number(1, longest_meeting_s), shown, value_name("SECONDS"),
        of_processes,
        "For how many seconds a rank waits for rank 0, which reads its data first, and rank 0 then for the "
        "others");
}

void add_processes(option_table& t, remote_args& w) {
  t.title("Processes");
  t.add("--processes", w.processes, whole_number(0, most_processes), of_processes,
        "Start so many workers as processes of their own, on --devices in turns, or on equal shares of them "
        "with --replicate or --pipeline; this process keeps coordinator, feeder and shards. 0: none; the "
        "workers of a run that --resume goes on with come into this process");
}

void add_batches_sent(option_table& t, remote_args& w) {
  t.add("--send-batches", w.sends_batches, of_processes,
        "Send mini-batches to the workers that are started here, in place of letting each of them hold "
        "--data in its own memory");
}

void add_wire(option_table& t, remote_args& w) {
  t.add("--wire", w.wire, value_name("FORMAT"), shown, of_processes,
        "How gradients travel between processes: float32, or in fewer bits by float16, bfloat16, int8, "
        "top-k:SHARE or 1-bit, where a worker keeps what a message lacks for the next one");
}

namespace {

void add_delays(option_table& t, train_args& w) {
  t.add("--delays", w.run.delays, value_name("LAW"), shown, of_one_process,
        "How long each step of a worker takes, by a law of the list below; a real worker idles when it has "
        "computed faster");
  t.add("--delays-seed", w.run.delays_seed, whole_number(0), shown, of_one_process, "Seed of these times");
}

void add_divergence(option_table& t, train_args& w) {
  t.add("--on-divergence", w.on_divergence, one_of({"end", "go-on"}), value_name("end|go-on"), shown,
        "What happens when the loss stays above 1000 times that of the first step or of chance: end ends the "
        "run as diverged, go-on trains on; a loss that is no finite number ends it anyway");
}

void add_data(option_table& t, train_args& w) {
  t.title("What to train");
  t.add("--model", w.model, shown,
        fmt::format("The model: {}, with settings {}, or a JSON file of layers",
                    fmt::join(built_in_models(), ", "), where_listed(w)));
  t.add("--data", w.data, shown, of_places | of_data,
        "The data set: fashion-mnist, or a folder or file of IDX, CIFAR, CSV or libsvm data, of ratings, of "
        "text or of numpy's arrays, or a folder of PNG or JPEG pictures for each class");
  t.add("--load", w.load, path("FILE"),
        "Begin with the weights of this safetensors or .npz file, in place of those that the seed draws");
  t.add("--load-strict", w.load_strict, one_of({"yes", "no"}), needs("--load"), value_name("yes|no"), shown,
        "Whether --load refuses weights that do not fit every variable; no takes those that fit, and lists "
        "the rest");
  t.add("--task", w.task, one_of({"automatic", "classification", "regression"}), shown, of_data,
        "What to learn from the labels: classification or regression; automatic takes what such files "
        "usually hold");
  t.add("--window", w.window, whole_number(1), shown, of_data,
        "For text: how many symbols the model reads at a time; it predicts the symbol after each");
  t.add("--split", w.split, one_of({"random", "time"}), shown, of_data,
        "For ratings: the fifth of them to test on; random draws it, time takes the latest");
  add_table(t, w.table);
  t.add("--data-limit", w.data_limit, whole_number(1, most_gibibytes), shown, of_data,
        "The most memory, in GiB, that the samples of a file may take; a packed or sparse file takes many "
        "times its size");
  t.add("--batch", w.run.batch, whole_number(1), shown, "Samples in a mini-batch of one worker");
  t.add("--epochs", w.run.epochs, whole_number(1), shown,
        "Passes over the training set by all workers together");
  t.add("--steps", w.run.steps, whole_number(1), excludes("--epochs"),
        "Mini-batches of all workers together, instead of --epochs");
}

void add_policy(option_table& t, train_args& w) {
  const bool is_open = w.devices.empty();
  t.title("How to run it");
  t.add(
      "--policy", w.run.policy,
      [is_open](CLI::App&, CLI::Option& o) {
        if (!is_open) o.capture_default_str();
      },
      fmt::format("How closely the workers keep together, {}; several in turn as \"async, sync@1000\"{}",
                  where_listed(w), is_open ? "; by default sync, but async with --devices or --cure" : ""));
  t.add("--cure", w.run.cure, shown,
        fmt::format("How to treat stale gradients, {}; none applies them as they are", where_listed(w)));
  t.add("--shards", w.run.shards, whole_number(1, most_actors), shown,
        "Number of parameter actors, each with an equal part of the weights");
  t.add("--seed", w.run.seed, whole_number(0), shown, of_data,
        "Seed of the initial weights, the order of samples, the test part, dropout and sampled text");
}

void add_optimizer(option_table& t, train_args& w) {
  t.title("Optimiser");
  t.add("--optimizer", w.optimizer, shown,
        fmt::format("The update rule: {}, or a plug-in such as ./libmine.so; with settings: "
                    "adam:beta1=0.8,epsilon=1e-6; lars, lamb, muon and shampoo look at whole variables, so "
                    "shards are cut between these",
                    fmt::join(optimizer_names(), ", ")));
  t.add("--lr", w.run.optimizer.learning_rate, number(), number(0, most_rate),
        "Learning rate; by default that of the optimiser, " + where_listed(w));
  t.add("--schedule", w.schedule, shown,
        "How the learning rate changes: constant, step:every=500,factor=0.1 or cosine:total=1000,warmup=100");
  t.add("--weight-decay", w.run.optimizer.weight_decay, number(),
        "Decoupled weight decay: in each step the weights shrink by the fraction lr * X");
  t.add("--l2", w.run.optimizer.l2, number(), "L2 penalty in the loss: the gradient grows by X * weights");
  t.add("--clip-norm", w.run.optimizer.clip_norm, number(),
        "The largest global norm of a worker's gradient; a larger one is scaled down; 0: no limit");
  t.title("Local steps");
  t.add("--local-steps", w.run.local_steps, whole_number(1),
        "Steps that each worker takes on its own weights before it sends their change to the shards");
  t.add("--outer-optimizer", w.outer_optimizer, shown, needs("--local-steps"),
        "The optimiser of the shards, which takes such changes as gradients; --optimizer is then that of the "
        "workers. For DiLoCo take nesterov; for workers that do not wait, delayed-nesterov:period=N");
  t.add("--outer-lr", w.run.outer.learning_rate, number(), number(0, most_rate), needs("--local-steps"),
        "Learning rate of the outer optimiser; by default " + where_listed(w) +
            ", but 1 for sgd, which averages the models");
}

void add_results(option_table& t, train_args& w) {
  t.title("Output");
  t.add("--report", w.outputs.report, path("FILE"), of_looks,
        "Write a report of the run to this file, as one JSON object; -: to standard output, with the summary "
        "on standard error; the same holds for the next two options");
  t.add("--save", w.outputs.save, path("FILE"),
        "Write the trained weights to this safetensors file, or to one of numpy if it ends in .npz, with "
        "what is needed to use the model");
  add_observing(t, w);
}

void add_text(option_table& t, train_args& w) {
  t.add("--sample-length", w.run.text.length, whole_number(0), shown,
        "For text: how many symbols the trained model writes at the end; 0: none");
  t.add("--temperature", w.run.text.temperature, number(0, 1000), shown,
        "For text: 1 draws each symbol by the model's probabilities, a lower value prefers likely symbols, "
        "and 0 always takes the likeliest");
  t.add("--quiet", w.quiet, of_display, "Show no progress, only the summary and what goes wrong");
}

void add_ending(option_table& t, train_args& w) {
  t.title("When to end");
  t.add("--evaluate-every", w.evaluate_every, interval_text(), value_name("N|TIME|epoch"), of_pace,
        "How often the weights are tested while the run goes on, on a thread of its own; no worker waits for "
        "it. By default never, or each epoch if one of the next options needs it");
  t.add("--validation", w.validation, number(0, 1), shown,
        "The share of the training samples, such as 0.1, that is held out for these tests; the test data "
        "then stay unseen until the end. 0: the weights are tested on the test data");
  t.add("--stop-when", w.run.stop_when, value_name("CONDITION"),
        "End early when a figure reaches a bound, such as \"loss<0.3\" or \"accuracy>=0.9, time_s>600\": any "
        "column of --metrics; loss, accuracy and rmse are those of the tests, or else loss is that of "
        "training");
  t.add("--patience", w.run.patience, whole_number(0), shown,
        "End early after so many tests in a row without a lower loss; 0: do not");
  t.add("--keep-weights", w.keep_weights, one_of({"last", "best"}), value_name("last|best"), of_choice,
        "The weights to test at the end and to save: last, those with which the run ends, or best, those of "
        "the test with the lowest loss; by default best with --patience, else last");
  add_divergence(t, w);
}

void add_devices(option_table& t, train_args& w) {
  t.title("How to run it");
  t.add("--devices", w.devices, shown, of_places,
        "The devices to train on, such as cpu:0,cpu:1, or streams of a GPU, cuda:0,cuda:0/1; each runs one "
        "worker, unless a model spans them. By default each GPU, or else each core that this process may "
        "use. 'mailgrad devices' lists them");
  if (!w.remote.serve) { // else the weights lie on the host
    t.add("--parameters", w.parameters, shown, of_one_process | of_places,
          "Where the weights lie and are updated: the host, a GPU such as cuda:0, or several places for the "
          "shards in turn, such as host,cuda:0");
    t.add("--run-ahead", w.run.run_ahead, whole_number(0, most_run_ahead), needs("--parameters"),
          of_one_process,
          "Steps that a worker begins before the one under way has ended, 0 or 1; left out, 0 under policies "
          "that look at time or at who comes first, and else 1");
  }
  t.add("--precision", w.precision, one_of(product_precision_names()), shown,
        "What matrix products on GPUs round their operands to: float32 does not, tf32 and bfloat16 are "
        "several times as fast; weights, gradients and sums are float32 in any case");
}

} // namespace

void add_options(option_table& t, train_args& w) {
  add_data(t, w);
  add_devices(t, w);
  add_policy(t, w);
  if (!w.remote.serve) add_delays(t, w); // only workers of this process can be delayed
  add_spanning(t, w.span);
  t.add("--workers", w.workers, whole_number(1, most_actors),
        "Number of workers, each with a replica of such a model on an equal share of the devices; 1 by "
        "default");
  t.add("--micro-batches", w.micro_batches, whole_number(1),
        "Parts of a batch that pass through the devices of a worker one after the other; by default 8 with "
        "--pipeline, 1 with --replicate");
  add_optimizer(t, w);
  t.title("Checkpoints");
  add_checkpoints(t, w.checkpoints);
  add_results(t, w);
  t.add("--record", w.outputs.record, path("FILE"),
        "Write the order of all gradients to this file, for 'mailgrad replay'; not for hogwild");
  add_text(t, w);
  add_live(t, w.live);
  add_metrics(t, w);
  add_ending(t, w);
}

void add_lab_run(option_table& t, train_args& w) {
  add_data(t, w);
  t.title("How to run it");
  t.add("--workers", w.simulated, whole_number(1, most_simulated), required,
        "How many workers are simulated, all on this thread");
  t.add("--local-samples", w.local_samples, overridable,
        "Each worker trains on samples of its own: worker r of M on the samples r, r + M, and so on, so that "
        "workers have unlike data where the samples are sorted");
  add_delays(t, w);
  t.add("--interrupt", w.interrupts, overridable,
        "A worker is interrupted by the update that makes its gradient too stale for the policy, and begins "
        "its next step");
  t.title("How gradients travel");
  t.add("--latency", w.latency, value_name("SECONDS"),
        "Seconds that a message takes between a worker and a shard, each way; a formula of the worker's "
        "number i, as in --delays");
  t.add("--bandwidth", w.bandwidth, value_name("BYTES"),
        "Bytes a second that a link between a worker and a shard carries, each way; a formula, too");
  add_wire(t, w.remote);
  t.add("--no-feedback", w.loses_rest, overridable,
        "What a message in a lossy --wire lacks is lost, instead of kept for the next one");
  add_policy(t, w);
  add_optimizer(t, w);
  t.title("How to run it");
  add_divergence(t, w);
  add_results(t, w);
  add_text(t, w);
}

namespace {

/// The options of all commands that train. Two parsers, since there are two of the name --listen.
struct all_options {
  CLI::App parser, launcher;
  train_args w;
  launch_args l;
  option_table table{parser}, of_launch{launcher};

  all_options() {
    add_options(table, w);
    add_server(table, w.remote);
    add_processes(table, w.remote);
    add_batches_sent(table, w.remote);
    add_wire(table, w.remote);
    add_launch(of_launch, l);
  }
};

} // namespace

bool is_of(std::string_view option, unsigned kinds) {
  static const all_options all;
  return ((all.table.kinds_of(option) | all.of_launch.kinds_of(option)) & kinds) != 0;
}

} // namespace mailgrad
