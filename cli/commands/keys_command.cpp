#include <mailgrad/cli/exit_code.hpp>
#include <mailgrad/cli/option_table.hpp>
#include <mailgrad/cli/program.hpp>

#include <mailgrad/net/tls/key_folder.hpp>

#include <fmt/format.h>

#include <iostream>

namespace mailgrad {

command make_keys_command(CLI::App& app) {
  CLI::App* parser = app.add_subcommand("keys", "Make the keys by which processes of a run know each other");
  parser->require_subcommand(1);
  parser->footer("Example:\n  mailgrad keys new run-keys");
  CLI::App* make = parser->add_subcommand("new", "Make a folder of new keys, readable by you alone");
  auto folder = std::make_shared<std::string>();
  option_table(*make).add("DIR", *folder, required, "The folder to make; it may not hold keys");
  make->footer("Example:\n  mailgrad keys new run-keys\n\n"
               "Other machines get copies: ca.pem, worker.pem and worker.key, or the token alone. A machine\n"
               "of 'mailgrad shard' gets ca.pem, shard.pem and shard.key.");
  return {parser, [folder] {
            net::key_folder(*folder).make();
            std::cout << fmt::format(
                "Made in {}:\n"
                "  ca.pem                  for every machine: tells whose certificates are right\n"
                "  ca.key                  signs certificates: keep it away from the machines of a run\n"
                "  server.pem, server.key  for the process that serves\n"
                "  worker.pem, worker.key  for every process that joins\n"
                "  shard.pem, shard.key    for 'mailgrad shard', which joins the server and lets workers "
                "join it\n"
                "  token                   instead of all of these: a secret that server and workers share\n",
                *folder);
            return exit_code::done;
          }};
}

} // namespace mailgrad
