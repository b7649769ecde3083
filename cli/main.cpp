#include <mailgrad/cli/program.hpp>

int main(int argc, char** argv) {
  using namespace mailgrad;
  const command_maker makers[] = {make_train_command,  make_serve_command,   make_launch_command,
                                  make_join_command,   make_shard_command,   make_status_command,
                                  make_switch_command, make_stop_command,    make_replay_command,
                                  make_test_command,   make_predict_command, make_generate_command,
                                  make_export_command, make_report_command,  make_devices_command,
                                  make_graph_command,  make_keys_command,    make_lab_command};
  return run_program(makers, {argv, argv + argc});
}
