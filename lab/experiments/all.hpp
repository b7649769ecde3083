#pragma once

#include <mailgrad/lab/experiment.hpp>

namespace mailgrad::lab {

void run_stability_map(const experiment_options& options, experiment_result& result);
inline constexpr experiment stability_map{
    "stability-map", "with a fixed delay tau, descent is stable up to a step of 2 sin(pi / (4 tau + 2))",
    "Levin & May, J. Theor. Biol. 1976; as Lemma 1 of Yang et al., PipeMare, MLSys 2021", run_stability_map};

void run_staleness_laws(const experiment_options& options, experiment_result& result);
inline constexpr experiment staleness_laws{
    "staleness-laws",
    "M workers that never wait are M - 1 versions late in the mean, whatever the law of their times",
    "counting; Zhang, Gupta, Lian & Liu, IJCAI 2016, arXiv:1511.05950; Ho et al., NIPS 2013",
    run_staleness_laws};

void run_noise_floor(const experiment_options& options, experiment_result& result);
inline constexpr experiment noise_floor{
    "noise-floor", "the more workers, the further from its minimum noise keeps asynchronous descent",
    "closed form for a quadratic; compare Mitliagkas et al., Allerton 2016", run_noise_floor};

void run_implicit_momentum(const experiment_options& options, experiment_result& result);
inline constexpr experiment implicit_momentum{
    "implicit-momentum",
    "M workers without memory act in the mean as momentum 1 - 1/M at a step M times shorter",
    "Mitliagkas, Zhang, Hadjis & Re, Allerton 2016, arXiv:1605.09774", run_implicit_momentum};

void run_stragglers(const experiment_options& options, experiment_result& result);
inline constexpr experiment stragglers{
    "stragglers", "a barrier waits for the slowest of all; asynchrony pays the mean time whatever the law",
    "Dutta, Joshi, Ghosh, Dube & Nagpurkar, AISTATS 2018, arXiv:1803.01113; Ho et al., NIPS 2013",
    run_stragglers};

void run_error_and_time(const experiment_options& options, experiment_result& result);
inline constexpr experiment error_and_time{
    "error-and-time", "by updates a barrier is ahead, by time asynchrony is, until its higher noise floor",
    "Dutta, Joshi, Ghosh, Dube & Nagpurkar, AISTATS 2018, arXiv:1803.01113", run_error_and_time};

void run_backup_workers(const experiment_options& options, experiment_result& result);
inline constexpr experiment backup_workers{
    "backup-workers", "not to wait for the slowest few shortens updates by more than the gradients it drops",
    "Chen, Pan, Monga, Bengio & Jozefowicz, 2016, arXiv:1604.00981", run_backup_workers};

void run_queue_staleness(const experiment_options& options, experiment_result& result);
inline constexpr experiment queue_staleness{
    "queue-staleness",
    "a full queue of Q from P producers to a consumer of B makes items (P + Q - B) / B versions old",
    "Little's law; the queue is that of asynchronous reinforcement learning, as AReaL, 2025, "
    "arXiv:2505.24298",
    run_queue_staleness};

void run_quorum_goodput(const experiment_options& options, experiment_result& result);
inline constexpr experiment quorum_goodput{
    "quorum-goodput",
    "a quorum of K among n learners that are up by chance loses little; one of all loses most",
    "Douillard et al., Decoupled DiLoCo, 2026, arXiv:2604.21428; a binomial sum", run_quorum_goodput};

void run_outer_cures(const experiment_options& options, experiment_result& result);
inline constexpr experiment outer_cures{
    "outer-cures",
    "stale differences of local steps upset an outer momentum, unless workers start ahead of it",
    "Ajanthan et al., MLA, 2025; Shah & Sun, CGAD, 2026, arXiv:2605.09126; Al Asif et al., HeLoCo, 2026, "
    "arXiv:2606.00271",
    run_outer_cures};

void run_delayed_optimizers(const experiment_options& options, experiment_result& result);
inline constexpr experiment delayed_optimizers{
    "delayed-optimizers", "gradients one version old cost AdamW more than Muon",
    "Zmushko, Petrov, Abdullaev, Khrushchev & Horvath, ICML 2026, arXiv:2606.30634", run_delayed_optimizers};

void run_compressed_gradients(const experiment_options& options, experiment_result& result);
inline constexpr experiment compressed_gradients{
    "compressed-gradients",
    "of unlike data, error feedback finds the minimum in spite of compression; stale gradients lose less",
    "Karimireddy, Rebjock, Stich & Jaggi, ICML 2019, arXiv:1901.09847; Stich & Karimireddy, JMLR 2020, "
    "arXiv:1909.05350",
    run_compressed_gradients};

void run_gap_and_lag(const experiment_options& options, experiment_result& result);
inline constexpr experiment gap_and_lag{
    "gap-and-lag", "momentum makes weights move further within one lag; DANA takes nearly all of that back",
    "Hakimi, Barkai, Gabel & Schuster, 2019, arXiv:1907.11612; Barkai, Hakimi & Schuster, ICLR 2020",
    run_gap_and_lag};

void run_fresh_gradients(const experiment_options& options, experiment_result& result);
inline constexpr experiment fresh_gradients{
    "fresh-gradients",
    "with workers of unlike speed, Ringmaster is ahead of Rennala, and both of adaptive steps",
    "Maranjyan, Tyurin & Richtarik, Ringmaster ASGD, ICML 2025; Tyurin & Richtarik, NeurIPS 2023",
    run_fresh_gradients};

void run_slowdown(const experiment_options& options, experiment_result& result);
inline constexpr experiment slowdown{
    "slowdown", "a barrier until a worker slows down, then async: low noise first, and full pace then",
    "Li, Mangoubi, Xu & Guo, Sync-Switch, ICDCS 2021, arXiv:2104.08364", run_slowdown};

void run_unlike_data(const experiment_options& options, experiment_result& result);
inline constexpr experiment unlike_data{
    "unlike-data", "where workers have unlike data, asynchronous descent ends where the fast ones pull it",
    "closed form; compare Rescaled ASGD, 2026, arXiv:2605.13434, and Koloskova et al., NeurIPS 2022",
    run_unlike_data};

void run_unlike_data_and_time(const experiment_options& options, experiment_result& result);
inline constexpr experiment unlike_data_and_time{
    "unlike-data-and-time",
    "of the methods that weigh workers alike, Ringleader is nearer sooner than Malenia, as it drops nothing",
    "Tyurin & Richtarik, NeurIPS 2023, arXiv:2305.12387; Maranjyan & Richtarik, ICLR 2026, arXiv:2509.22860",
    run_unlike_data_and_time};

void run_rescue(const experiment_options& options, experiment_result& result);
inline constexpr experiment rescue{
    "rescue", "a step divided by its staleness lets 30 workers train at the learning rate of one",
    "Zhang, Gupta, Lian & Liu, IJCAI 2016, arXiv:1511.05950, Figure 3, there of CIFAR-10", run_rescue};

void run_hogwild(const experiment_options& options, experiment_result& result);
inline constexpr experiment hogwild{
    "hogwild", "on sparse data, workers that write without locks lose no accuracy (real threads)",
    "Niu, Recht, Re & Wright, Hogwild!, NIPS 2011, arXiv:1106.5730", run_hogwild, true};

} // namespace mailgrad::lab
