#include <mailgrad/net/ending.hpp>

namespace mailgrad::net {

namespace {

constexpr std::array<std::string_view, 13> reason_names{
    "",           "left",    "silent", "lost",   "malformed", "out of order", "without credit",
    "superseded", "refused", "late",   "failed", "absent",    "run failed"};

bool has(const std::string& words, const char* what) { return words.find(what) != std::string::npos; }

std::string on_keys(const refusal& why) {
  if (has(why.found, "certificate purpose"))
    return "give each side the files of its part, which are those of a server, a worker or a parameter host";
  if (has(why.found, "without keys"))
    return has(why.found, "server") ? "start the server with --keys, or give none on one machine"
                                    : "give --keys with the keys of the server";
  const bool by_token = has(why.expected, "token "), by_certificate = has(why.expected, "certificate of '");
  if (by_token && has(why.found, "certificate"))
    return "one side has a token and the other certificates: give both sides the folder, or both its token";
  if (by_certificate && has(why.found, "token"))
    return "one side has certificates and the other a token: give both sides the folder, or both its token";
  return has(why.expected, "TLS") ? "give both sides keys of one `mailgrad keys new`, or none on one machine"
                                  : "";
}

std::string on_place(const refusal& why) {
  if (has(why.found, "all taken"))
    return has(why.expected, "worker") ? "the run is full; 'mailgrad serve --slots N' takes more workers"
                                       : "the run has its parameter hosts; 'mailgrad serve --shard-hosts N' "
                                         "waits for more";
  if (has(why.expected, "to be gone")) return "it is in the run; leave --number out, or end that one first";
  return "";
}

} // namespace

std::string_view to_string(end_reason r) noexcept { return reason_names[static_cast<std::uint8_t>(r)]; }

bool is_end_reason(std::uint8_t number) noexcept {
  return number > 0 && number < reason_names.size() && end_reason{number} != end_reason::absent;
}

std::string advice_on(const refusal& why) {
  std::string what;
  if (why.code == refusal_code::keys) what = on_keys(why);
  if (why.code == refusal_code::number) what = on_place(why);
  return what.empty() ? "" : ": " + what;
}

} // namespace mailgrad::net
