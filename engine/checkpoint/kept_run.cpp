#include <mailgrad/engine/checkpoint/kept_run.hpp>

#include <string>

namespace mailgrad {

namespace {

void keep_switch(archive& a, policy_switch& s) {
  a.field("step", s.step);
  a.field("from", s.from);
  a.field("to", s.to);
  a.field("why", s.why);
}

} // namespace

void checkpoint_card::keep(archive& a) {
  a.version(2);
  a.field("workers", workers);
  a.field("shards", shards);
  a.field("facts", facts);
  a.field("words", words);
  a.field("replayed", replayed);
  a.field("steps", steps);
  a.field("elapsed_ns", elapsed);
  a.field("present", present);
  a.field("counted", counted);
  a.field("lost", lost);
}

void kept_schedule::keep(archive& a) {
  a.version(1);
  a.field("policy", policy);
  a.field("planned", planned);
  a.field("asked", asked);
  std::size_t count = done.size();
  a.field("switches", count);
  for (std::size_t i = 0; i < count; ++i) {
    policy_switch s = a.reads() ? policy_switch{} : done[i];
    a.group("switch " + std::to_string(i), [&] { keep_switch(a, s); });
    if (a.reads()) done.push_back(s);
  }
}

void feeder_position::keep(archive& a) {
  a.version(1);
  a.field("batches", batches);
  a.field("trained", trained);
  a.field("switches", switches);
}

} // namespace mailgrad
