#include <mailgrad/cli/program.hpp>

#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/output/run_outputs.hpp>
#include <mailgrad/kernels/arithmetic.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <iostream>
#include <optional>
#include <sstream>
#include <system_error>

namespace mailgrad {

std::filesystem::path program_of_lab() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mailgrad-lab";
}

int become_lab(std::vector<std::string> words) {
  const auto program = program_of_lab();
  words.insert(words.begin(), program.filename());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  const int why = errno;
  throw std::runtime_error("the lab is a program of its own, and " + program.string() +
                           " cannot be run: " + std::generic_category().message(why) +
                           ". 'cmake --build --preset release' builds it.");
}

command make_lab_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("lab", "Experiments on staleness, in virtual time");
  parser->prefix_command(); // all words are left to the lab
  parser->set_help_flag();
  return {parser, [parser] { return become_lab(parser->remaining()); }};
}

std::string utc_date(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

namespace {

std::string format_version() {
  const provenance here = this_program();
  return "mailgrad " + here.version + "\ncommit   " + build_commit + "\ncompiler " + here.compiler +
         "\nkernels  for " + kernel_instructions();
}

/// Reports output that was lost, for example on a full disk. A user who closed the terminal or stopped
/// reading a pipe knows of the loss, so these two cases are no error.
int checked_output(int code) {
  errno = 0;
  std::cout.flush();
  if (std::cout || code == exit_code::of_signal(SIGHUP)) return code;
  const int why = errno != 0 ? errno : EIO;
  if (why == EPIPE) return code;
  throw std::runtime_error("standard output cannot be written: " + std::generic_category().message(why));
}

/// Opens closed standard streams, because the next file would get their descriptors and the text meant for
/// the user. Standard output is opened for reading only, so that writing to it still fails. A file beyond its
/// size limit, or a pipe without a reader, becomes a failed write instead of a signal.
void prepare_process() {
  const std::pair<int, int> streams[] = {
      {STDIN_FILENO, O_RDONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}};
  for (const auto& [number, mode] : streams)
    if (fcntl(number, F_GETFD) == -1) [[maybe_unused]]
      const int lowest = open("/dev/null", mode);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

/// A server needs two descriptors for each peer, and the usual limit, for programs that use select(), is
/// 1,024. What the system allows beyond a sane number is left alone.
void raise_descriptor_limit() {
  constexpr rlim_t enough = 65'536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough) return;
  limit.rlim_cur = std::min(limit.rlim_max, enough);
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// `mailgrad help join` means `mailgrad join --help`. A command that there is not is left to the parser.
/// Below a command it must not be, since `mailgrad help join HOST` must not join.
void ask_for_help(const CLI::App& app, std::vector<const char*>& words) {
  if (words.size() < 2 || std::string_view(words[1]) != "help") return;
  words.erase(words.begin() + 1);
  const CLI::App* at = &app;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto below = at->get_subcommands(nullptr);
    const auto next = std::ranges::find(below, std::string_view(words[i]), &CLI::App::get_name);
    if (next == below.end() && i == 1) return;
    if (next == below.end())
      reject("help: '{}' has no command '{}'; 'mailgrad help {}' lists what it takes", at->get_name(),
             words[i], words[1]);
    at = *next;
  }
  words.push_back("--help");
}

constexpr std::string_view first_steps =
    "mailgrad: a command is missing. To begin:\n"
    "  mailgrad train           trains a small network, and reports what that cost\n"
    "  mailgrad train --live    the same, with a page in the browser\n"
    "  mailgrad help train      says what it takes: models, data, devices, policies\n"
    "  mailgrad --help          lists all commands\n";

int run(std::span<const command_maker> makers, std::vector<const char*> words) {
  prepare_process();
  raise_descriptor_limit();
  std::optional<printable_stream> shown;
  if (isatty(STDOUT_FILENO) != 0) shown.emplace(std::cout);
  if (words.size() == 1) {
    std::cerr << first_steps;
    return exit_code::bad_input;
  }
  CLI::App app("Trains neural networks with actors, and knows exactly how stale every gradient was.",
               "mailgrad");
  app.set_version_flag("--version", format_version(), "Print version, commit and compiler, and exit");
  app.formatter(make_help_format()); // subcommands inherit it
  app.require_subcommand(1);
  app.footer(
      "'mailgrad help COMMAND' and 'mailgrad COMMAND --help' tell more about each command.\n"
      "Exit codes: 0 done, or ended as 'mailgrad stop', the live page or --stop-when asked, 1 the run\n"
      "failed, 2 wrong options or damaged input, 3 a replay differs, 4 a replay of a killed run went as\n"
      "far as its recording, 5 the run has diverged, 130, 143 and 129 ended by Ctrl-C, SIGTERM and SIGHUP.");
  std::vector<command> commands;
  for (const command_maker& make : makers) commands.push_back(make(app));
  try {
    ask_for_help(app, words);
    const std::vector<std::string> typed(words.begin() + 1, words.end());
    warn_of_old_names(typed);
    std::vector<std::string> present = with_present_names(typed);
    std::ranges::reverse(present); // as the parser takes it
    app.parse(std::move(present));
  } catch (const CLI::Success& e) { // --help, --version
    std::ostringstream text;
    const int code = app.exit(e, text, std::cerr);
    output_file("help", std::string(output_file::standard_output)).write([&](std::ostream& out) {
      out << text.str();
    });
    return code;
  } catch (const CLI::ParseError& e) {
    say_failure(explain(app, e));
    return exit_code::bad_input;
  }
  for (const command& c : commands)
    if (c.parser->parsed()) return checked_output(c.run());
  return exit_code::bad_input;
}

} // namespace

std::vector<command_maker> commands_of_tool(command_maker lab) {
  return {make_train_command,     make_serve_command,   make_launch_command,
          make_join_command,      make_shard_command,   make_status_command,
          make_switch_command,    make_stop_command,    make_replay_command,
          make_test_command,      make_predict_command, make_generate_command,
          make_export_command,    make_report_command,  make_devices_command,
          make_graph_command,     make_keys_command,    lab,
          make_completion_command};
}

int run_program(std::span<const command_maker> makers, std::vector<const char*> words) {
  try {
    return run(makers, std::move(words));
  } catch (const std::exception& e) {
    const int code = exit_code_of(e);
    code == exit_code::done ? say_line(e.what()) : say_failure(e.what());
    return code;
  }
}

} // namespace mailgrad
