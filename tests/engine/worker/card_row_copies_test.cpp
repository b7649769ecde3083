#include <mailgrad/tests/engine/worker/card_rows_fixture.hpp>
#include <mailgrad/tests/support/simulated_card/card_control.hpp>

// What only the simulated card tells: how much a step copies.

namespace mailgrad {
namespace {

using testing::tall_recommender;
using testing::tall_sparse_data;
using testing::tall_tastes;

class CardRowCopies : public testing::card_rows_test {
protected:
  struct copied {
    std::size_t to_card, to_host, on_card;
    std::uint64_t launches;
    friend bool operator==(const copied&, const copied&) = default;
  };
  static copied count() {
    const simulated_card::counters c = simulated_card::count();
    return {c.bytes_to_card, c.bytes_to_host, c.bytes_on_card, c.launches};
  }
  copied copied_by_step(const std::shared_ptr<const batch>& b) {
    give_next(*b);
    const auto g = on_card_->make_gradient();
    gradients_.push_back(g);
    const copied before = count();
    on_card_->begin_step(b, g);
    await_end();
    on_card_->end_step();
    const copied after = count();
    return {after.to_card - before.to_card, after.to_host - before.to_host, after.on_card - before.on_card,
            after.launches - before.launches};
  }
};

TEST_F(CardRowCopies, DoNotDependOnTheHeightOfTables) {
  for (const auto& [model, data_of] :
       {std::pair{tall_recommender, +[](std::size_t n) { return tall_tastes(n); }},
        {"softmax", +[](std::size_t n) { return tall_sparse_data(n); }}})
    for (const weight_place where : {weight_place::same_card, weight_place::host})
      for (const std::size_t shards : {1U, 3U}) {
        std::vector<copied> of_heights;
        for (const std::size_t height : {1000U, 100000U}) {
          build_with(find_model(model), data_of(height), shards, where);
          for (std::uint32_t i = 0; i < 3; ++i) copied_by_step(samples(8 * i, 8, i));
          of_heights.push_back(copied_by_step(samples(24, 8, 3)));
        }
        EXPECT_EQ(of_heights[0].to_card, of_heights[1].to_card);
        EXPECT_EQ(of_heights[0].to_host, of_heights[1].to_host);
        EXPECT_EQ(of_heights[0].on_card, of_heights[1].on_card);
        EXPECT_LT(of_heights[1].to_card + of_heights[1].on_card, 8000U) << "a tall table has more";
      }
}

/// A batch of each size has a program of its own, and all have the same tables.
TEST_F(CardRowCopies, ReadNothingBeforeItIsThere) {
  for (const weight_place where : {weight_place::same_card, weight_place::host}) {
    simulated_card::settings late = simulated_card::default_settings();
    late.when = simulated_card::timing::late;
    simulated_card::set_up(late);
    build_with(find_model(tall_recommender), tall_tastes(500), 3, where);
    for (std::uint32_t i = 0; i < 6; ++i) expect_same_step(samples(8 * i, i % 3 == 2 ? 3 : 8, i));
    simulated_card::set_up(simulated_card::default_settings());
  }
}

} // namespace
} // namespace mailgrad
