// Shows the overshoot of stale gradients. Two workers read the same weights and push one after the other. In
// `async` the second gradient is applied although the first has moved the weights, which carries them past
// the minimum. In `sync` the workers wait for each other, and the second step begins where the first has
// ended. The program prints both paths and draws them into overshoot.svg.
//
//   overshoot [PICTURE]

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/run/run_crew.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

using namespace mailgrad;
using messaging::on, messaging::send, messaging::send_anonymously, messaging::spawn;

struct point {
  float x = 1, y = 1;
};
float loss(point p) { return (p.x * p.x + 4 * p.y * p.y) / 2; }
std::array<float, 2> slope(point p) { return {p.x, 4 * p.y}; }

using turns = std::vector<std::vector<std::uint32_t>>; // by turn: the workers that push at once
struct journey {
  std::vector<point> places;
  double staleness = 0; // of the second worker's gradients, in versions, as the shard counts it
};

/// Two workers of one shard that push in the given turns.
class two_workers {
public:
  static constexpr const char* name = "demo.two-workers";

  two_workers(caf::event_based_actor* self, caf::actor shard, turns order, std::shared_ptr<journey> notes)
      : self_(self), shard_(std::move(shard)), order_(std::move(order)), notes_(std::move(notes)) {}

  caf::behavior make_behavior() {
    for (const std::uint32_t r : {0U, 1U})
      send(self_, shard_, join_shard{{r}, {}, caf::actor_cast<caf::actor>(self_)});
    return {on(self_, [this](const shard_weights& x) { read(x); }), on(self_, [this](const shard_report& x) {
              notes_->staleness = x.workers[1].gaps.mean();
              send(self_, shard_, give_up{});
              self_->quit();
            })};
  }

private:
  /// Waits for all answers of a turn; its workers have then read the same weights.
  void read(const shard_weights& x) {
    if (++answers_ < readers_.size()) return;
    answers_ = 0;
    const auto now = x.payload.values.on_host();
    notes_->places.push_back({now[0], now[1]});
    for (const std::uint32_t r : readers_) version_[r] = x.header.version;
    if (turn_ == order_.size()) return send(self_, shard_, report_shard{});
    readers_ = order_[turn_++];
    for (const std::uint32_t r : readers_) push(r);
  }

  void push(std::uint32_t r) {
    auto values = std::make_shared<gradient>();
    values->dense = memory(block(64)); // a cache line, of which two floats are the point
    std::ranges::copy(slope(notes_->places[version_[r].value]), values->dense.on_host<float>().begin());
    constexpr auto as_it_is = std::bit_cast<std::uint32_t>(1.0F);
    const gradient_id id{{}, {r}, {}, {version_[r].value + 1}};
    send(self_, shard_, push_gradient{{id, version_[r], {}, as_it_is}, {values}});
  }

  caf::event_based_actor* self_;
  caf::actor shard_;
  turns order_;
  std::shared_ptr<journey> notes_;
  version_number version_[2]; // the version that each worker has read
  std::vector<std::uint32_t> readers_{0, 1};
  std::size_t turn_ = 0, answers_ = 0;
};

journey travelled(const char* policy, const turns& order) {
  training_options two_workers_on_a_shard;
  two_workers_on_a_shard.devices = {parse_device("cpu:0"), parse_device("cpu:0")};
  two_workers_on_a_shard.policy = policy;
  two_workers_on_a_shard.optimizer.learning_rate = 0.2;
  run_plan plan = plan_shards(std::make_shared<parameter_layout>(
                                  std::vector<placed_variable>{{"point", {2}, initialiser::constant(1)}}, 1),
                              two_workers_on_a_shard);

  const auto notes = std::make_shared<journey>();
  run_home home(two_workers_on_a_shard.devices);
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

/// A line for each step, with an arrow head short of where the step ends.
void draw_journey(std::ostream& out, const journey& j, const char* policy, const char* colour) {
  out << "<g fill='" << colour << "' stroke='" << colour << "'>\n";
  for (std::size_t i = 0; i < j.places.size(); ++i) {
    const point to = on_page(j.places[i]);
    if (i > 0) {
      const point from = on_page(j.places[i - 1]);
      out << "<line stroke-width='3' marker-end='url(#" << policy << ")' x1='" << from.x << "' y1='" << from.y
          << "' x2='" << to.x << "' y2='" << to.y << "'/>\n";
    }
    out << "<circle cx='" << to.x << "' cy='" << to.y << "' r='6' stroke='white'/>\n";
  }
  out << "</g>\n";
}

void define_arrow(std::ostream& out, const char* policy, const char* colour) {
  out << "<marker id='" << policy << "' viewBox='0 0 10 10' refX='15' refY='5' markerWidth='6' "
      << "markerHeight='6' orient='auto'><path fill='" << colour << "' d='M0 0L10 5L0 10z'/></marker>\n";
}

/// One ellipse for each loss, which stands where the ellipse is lowest.
void draw_levels(std::ostream& out) {
  for (const float level : {0.1F, 0.4F, 0.9F, 1.6F, 2.5F}) {
    const float height = 180 * std::sqrt(2 * level);
    out << "<ellipse fill='none' stroke='#bbb' cx='160' cy='420' rx='" << 2 * height << "' ry='" << height
        << "'/>\n<text x='160' y='" << 415 - height << "' fill='#888' font-size='15' text-anchor='middle'>"
        << level << "</text>\n";
  }
  out << "<path d='M152 420h16M160 412v16' stroke='black'/>\n<text x='16' y='446'>minimum: loss 0</text>\n";
}

void draw(const std::string& file, const journey& async, const journey& sync) {
  constexpr const char *red = "#d1495b", *blue = "#1f6fb4";
  std::ofstream out(file);
  const auto label = [&out](point at, const char* text, point of) {
    out << "<text x='" << at.x << "' y='" << at.y << "'>" << text << ": loss "
        << std::round(100 * loss(of)) / 100 << "</text>\n";
  };
  out.precision(3);
  out << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 700 700' font-size='18' "
         "font-family='sans-serif'>\n<rect width='700' height='700' fill='white'/>\n";
  define_arrow(out, "async", red);
  define_arrow(out, "sync", blue);
  out << "<text x='16' y='684'>Ellipses of equal loss</text>\n";
  draw_levels(out);
  draw_journey(out, sync, "sync", blue);
  draw_journey(out, async, "async", red);
  label({534, 66}, "before", async.places[0]);
  label({462, 340}, "between", async.places[1]);
  label({192, 446}, "after, in sync", sync.places[2]);
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
