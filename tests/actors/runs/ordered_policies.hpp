#pragma once

#include <array>

namespace mailgrad::testing {

/// Every policy whose updates have an order, which a run can record, and two runs that switch between
/// several. All but hogwild are among them, as a test of replays makes sure.
inline constexpr std::array ordered_policies{"async",
                                             "sync",
                                             "ssp:1",
                                             "dssp:0,2",
                                             "backup:1",
                                             "k-async:2",
                                             "k-batch-async:2",
                                             "k-batch-sync:2",
                                             "rennala:3",
                                             "ringmaster:2",
                                             "malenia:4",
                                             "ringleader",
                                             "queue:2,3",
                                             "quorum:2,grace=0.0005",
                                             "sync, queue:1,3@3, queue:2,2@7, async@10",
                                             "ringleader, malenia:2@4, ringleader@8",
                                             "async, sync@4, ssp:1@8",
                                             "sync, backup:1@3, k-async:2@7, async@10"};

} // namespace mailgrad::testing
