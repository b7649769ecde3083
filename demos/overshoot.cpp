// The overshoot of stale gradients: two workers read the same weights and push one after the other. In
// `async` the second gradient counts, though the first has moved the weights, and carries them past the
// valley. In `sync` the workers wait for each other, and the second step begins where the first has led.
// Prints both and draws them, into overshoot.svg.
//
//   overshoot [PICTURE]

#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/run/run_home.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

using namespace mailgrad;

struct point {
  float x = 1, y = 1;
};
float loss(point p) { return (p.x * p.x + 4 * p.y * p.y) / 2; }
std::array<float, 2> slope(point p) { return {p.x, 4 * p.y}; }

using turns = std::vector<std::vector<std::uint32_t>>; // who pushes at once, and who when those have answers
struct journey {
  std::vector<point> places;
  double staleness = 0; // of the second worker's gradients, in versions, as the shard counts it
};

/// Two workers of one shard that do nothing of themselves: they push in the turns they are given.
class two_workers {
public:
  static constexpr const char* name = "demo.two-workers";

  two_workers(caf::event_based_actor* self, caf::actor shard, turns order, std::shared_ptr<journey> notes)
      : self_(self), shard_(std::move(shard)), order_(std::move(order)), notes_(std::move(notes)) {}

  caf::behavior make_behavior() {
    for (const std::uint32_t r : {0U, 1U})
      send(self_, shard_, join_shard{{r}, caf::actor_cast<caf::actor>(self_)});
    return {on(self_, [this](const shard_weights& x) { read(x); }), on(self_, [this](const shard_report& x) {
              notes_->staleness = x.workers[1].gaps.mean();
              send(self_, shard_, give_up{});
              self_->quit();
            })};
  }

private:
  /// Whoever pushed in the last turn has read the same weights, once all of its answers are there.
  void read(const shard_weights& x) {
    if (++answers_ < readers_.size()) return;
    answers_ = 0;
    const auto now = x.values->as<float>();
    notes_->places.push_back({now[0], now[1]});
    for (const std::uint32_t r : readers_) version_[r] = x.version;
    if (turn_ == order_.size()) return send(self_, shard_, report_shard{});
    readers_ = order_[turn_++];
    for (const std::uint32_t r : readers_) push(r);
  }

  void push(std::uint32_t r) {
    auto values = std::make_shared<gradient>();
    values->dense = block(64); // a cache line, of which two floats are the point
    std::ranges::copy(slope(notes_->places[version_[r]]), values->dense.as<float>().begin());
    constexpr auto as_it_is = std::bit_cast<std::uint32_t>(1.0F);
    send(self_, shard_, push_gradient{{r}, version_[r] + 1, version_[r], 0, as_it_is, values});
  }

  caf::event_based_actor* self_;
  caf::actor shard_;
  turns order_;
  std::shared_ptr<journey> notes_;
  std::uint64_t version_[2]; // that each worker has read
  std::vector<std::uint32_t> readers_{0, 1};
  std::size_t turn_ = 0, answers_ = 0;
};

journey travelled(const char* policy, const turns& order) {
  run_plan plan; // of one shard that two workers share
  plan.options.workers = 2;
  plan.policies = {{0, policy}};
  plan.layout = std::make_shared<parameter_layout>(
      std::vector<placed_variable>{{"point", {2}, initialiser::constant(1)}}, 1);
  plan.shard_rule.learning_rate = 0.2;

  const auto notes = std::make_shared<journey>();
  run_home home({parse_device("cpu:0"), parse_device("cpu:0")});
  run_crew_options options{std::make_shared<machine_time>()};
  options.roles = {.shards = true, .feeder = false, .coordinator = false, .workers = false};
  run_crew crew(home.system(), std::move(plan), std::move(options));
  spawn<two_workers>(home.system(), crew.shards().front(), order, notes);
  send_anonymously(crew.tracker(), give_up{});
  home.wait();
  return *notes;
}

/// A unit of the plane is 360 pixels.
point on_page(point p) { return {160 + 360 * p.x, 420 - 360 * p.y}; }

void draw_journey(std::ostream& out, const journey& j, const char* colour) {
  out << "<g fill='" << colour << "'>\n<polyline fill='none' stroke-width='3' stroke='" << colour
      << "' points='";
  for (const point& p : j.places) out << on_page(p).x << ',' << on_page(p).y << ' ';
  out << "'/>\n";
  for (const point& p : j.places)
    out << "<circle cx='" << on_page(p).x << "' cy='" << on_page(p).y << "' r='6' stroke='white'/>\n";
  out << "</g>\n";
}

void draw(const std::string& file, const journey& async, const journey& sync) {
  std::ofstream out(file);
  const auto label = [&out](point at, const char* text, point of) {
    out << "<text x='" << at.x << "' y='" << at.y << "'>" << text << ": loss "
        << std::round(100 * loss(of)) / 100 << "</text>\n";
  };
  out.precision(3);
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 700 700' font-size='18' "
         "font-family='sans-serif'>\n<rect width='700' height='700' fill='white'/>\n<path d='M152 420h16M160 "
         "412v16' stroke='black'/>\n<text x='16' y='66'>Ellipses of equal loss</text>\n";
  for (const float level : {0.1F, 0.4F, 0.9F, 1.6F, 2.5F}) // one ellipse for each loss
    out << "<ellipse fill='none' stroke='#bbb' cx='160' cy='420' rx='" << 360 * std::sqrt(2 * level)
        << "' ry='" << 180 * std::sqrt(2 * level) << "'/>\n";
  draw_journey(out, sync, "#1f6fb4");
  draw_journey(out, async, "#d1495b");
  label({534, 50}, "before", async.places[0]);
  label({462, 348}, "between", async.places[1]);
  label({170, 444}, "after, in sync", sync.places[2]);
  label({392, 664}, "after, in async", async.places[2]);
  if (!(out << "</svg>\n").flush()) throw std::runtime_error("cannot write " + file);
}

bool print(const char* policy, const journey& j) {
  std::printf("%-6s", policy);
  for (const point& p : j.places)
    std::printf("  (%5.2f, %5.2f) loss %.2f", double{p.x}, double{p.y}, double{loss(p)});
  const bool rises = loss(j.places[2]) > loss(j.places[1]);
  std::printf("  staleness %.1f: the second step %s the loss\n", j.staleness, rises ? "raises" : "lowers");
  return rises;
}

int main(int argc, char** argv) try {
  std::printf("        before                     between                    after\n");
  const journey async = travelled("async", {{0}, {1}}), sync = travelled("sync", {{0, 1}, {0, 1}});
  draw(argc > 1 ? argv[1] : "overshoot.svg", async, sync);
  return print("async", async) && !print("sync", sync) ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "overshoot: %s\n", e.what());
  return 2;
}
