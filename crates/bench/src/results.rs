//! The results of all rounds.

use std::collections::BTreeMap;

use super::contender::Contender;
use super::metric::Metric;

#[derive(Debug, Default)]
pub struct BenchResults {
    figures: BTreeMap<(Metric, usize, Contender), Vec<f64>>,
    failures: Vec<String>,
}

impl BenchResults {
    pub fn add(&mut self, metric: Metric, proxies: usize, contender: Contender, figure: f64) {
        self.figures.entry((metric, proxies, contender)).or_default().push(figure);
    }

    pub fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    /// The median over the rounds.
    pub fn figure(&self, metric: Metric, proxies: usize, contender: Contender) -> Option<f64> {
        self.figures.get(&(metric, proxies, contender)).map(|it| median(it))
    }

    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = self.figures.keys().map(|(metric, ..)| *metric).collect();
        metrics.dedup();
        metrics
    }

    /// Whether nothing was measured and nothing failed.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty() && self.failures.is_empty()
    }

    pub fn failures(&self) -> &[String] {
        &self.failures
    }
}

pub fn median(figures: &[f64]) -> f64 {
    percentile(figures, 50)
}

/// The percentile of some figures.
pub fn percentile(figures: &[f64], percent: usize) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_figures_that_occurred() {
        let figures = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(median(&figures), 3.0);
        assert_eq!(percentile(&figures, 99), 5.0);
        assert_eq!(percentile(&figures, 1), 1.0);
    }
}
