#include <mailgrad/cli/program.hpp>

int main(int argc, char** argv) {
  using namespace mailgrad;
  return run_program(commands_of_tool(make_lab_command), {argv, argv + argc});
}
