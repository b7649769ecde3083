#include <mailgrad/tests/net/stream/network_kinds.hpp>

#include <mailgrad/net/memory/memory_network.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/tls/key_folder.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

namespace mailgrad::net {

namespace {

std::shared_ptr<const tls_keys> new_token() {
  const scratch_folder files;
  key_folder keys(files.path() / "keys");
  keys.make();
  return tls_keys::of_token(keys.token());
}

} // namespace

const std::vector<network_kind>& network_kinds() {
  using std::chrono::milliseconds;
  static const std::vector<network_kind> all{
      {"Tcp", "127.0.0.1:0",
       [](milliseconds patience) {
         return std::make_unique<tcp_network>(tcp_options{.patience = patience});
       }},
      {"Tls", "127.0.0.1:0",
       [keys = new_token()](milliseconds patience) {
         return std::make_unique<tcp_network>(tcp_options{.patience = patience, .keys = keys});
       }},
      {"Memory", "memory:",
       [](milliseconds patience) {
         return std::make_unique<memory_network>(memory_options{.patience = patience});
       }},
  };
  return all;
}

} // namespace mailgrad::net
