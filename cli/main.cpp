#include <mailgrad/cli/commands.hpp>
#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/help_format.hpp>
#include <mailgrad/cli/version.hpp>
#include <mailgrad/cli/wrong_option.hpp>

#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace mailgrad {

namespace {

/// What was printed may not have arrived, on a full disk for one. Whoever closed the terminal of a run, or
/// reads a pipe no further, knows that.
int checked_output(int code) {
  errno = 0;
  std::cout.flush();
  if (std::cout || code == exit_code::of_signal(SIGHUP)) return code;
  const int why = errno != 0 ? errno : EIO;
  if (why == EPIPE) return code;
  throw std::runtime_error("standard output cannot be written: " + std::generic_category().message(why));
}

/// A closed standard stream would lend its number to the next file, which then got the words that are meant
/// for a user. Standard output stays one that cannot be written. A file that may not grow, or a pipe that
/// nobody reads any more, is a write that fails, not a signal.
void prepare_process() {
  const std::pair<int, int> streams[] = {
      {STDIN_FILENO, O_RDONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_WRONLY}};
  for (const auto& [number, mode] : streams)
    if (fcntl(number, F_GETFD) == -1) [[maybe_unused]]
      const int lowest = open("/dev/null", mode);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

int run(int argc, char** argv) {
  prepare_process();
  CLI::App app("Trains neural networks with actors, and knows exactly how stale every gradient was.",
               "mailgrad");
  app.set_version_flag("--version", version_in_words(), "Print version, commit and compiler, and exit");
  app.formatter(make_help_format()); // which commands inherit
  app.require_subcommand(1);
  app.footer("'mailgrad COMMAND --help' tells more about each.\n"
             "Exit codes: 0 done, 1 the run failed, 2 wrong options or damaged input, 3 a replay differs,\n"
             "4 a replay of a killed run went as far as its recording, 130, 143 and 129 stopped by Ctrl-C,\n"
             "SIGTERM and SIGHUP.");
  const command commands[] = {make_train_command(app), make_replay_command(app), make_devices_command(app),
                              make_graph_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) { // --help, --version
    return checked_output(app.exit(e));
  } catch (const CLI::ParseError& e) {
    std::cerr << "mailgrad: " << explain(app, e) << '\n';
    return exit_code::bad_input;
  }
  for (const command& c : commands)
    if (c.parser->parsed()) return checked_output(c.run());
  return exit_code::bad_input;
}

} // namespace

} // namespace mailgrad

int main(int argc, char** argv) {
  try {
    return mailgrad::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "mailgrad: " << e.what() << '\n';
    return mailgrad::exit_code_of(e);
  }
}
