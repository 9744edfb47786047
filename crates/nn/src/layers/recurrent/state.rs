//! What a recurrent network hands on from step to step: `h`, or `h` and `c`.

use foldback_graph::Var;

use crate::summary::HasShapes;

/// The state of a recurrent network: a variable `h`, or a pair `(h, c)` for an LSTM.
///
/// ```
/// use foldback_nn::{State, Var};
/// use foldback_tensor::tensor;
/// let state = (Var::from(tensor![1.0]), Var::from(tensor![2.0]));
/// assert_eq!(state.parts().len(), 2);
/// ```
pub trait State: Clone + HasShapes + sealed::SealedState {
    /// What its parts are called.
    const NAMES: &'static [&'static str];

    /// Its parts: `h`, and `c` if there is one.
    fn parts(&self) -> Vec<&Var>;

    /// The state of these parts, of which there are as many as names.
    #[doc(hidden)]
    fn of(parts: Vec<Var>) -> Self;
}

mod sealed {
    pub trait SealedState {}
    impl SealedState for foldback_graph::Var {}
    impl SealedState for (foldback_graph::Var, foldback_graph::Var) {}
}

impl State for Var {
    const NAMES: &'static [&'static str] = &["h_0"];
    fn parts(&self) -> Vec<&Var> {
        vec![self]
    }
    fn of(parts: Vec<Var>) -> Var {
        let [h] = parts.try_into().expect("one part");
        h
    }
}

impl State for (Var, Var) {
    const NAMES: &'static [&'static str] = &["h_0", "c_0"];
    fn parts(&self) -> Vec<&Var> {
        vec![&self.0, &self.1]
    }
    fn of(parts: Vec<Var>) -> (Var, Var) {
        let [h, c] = parts.try_into().expect("two parts");
        (h, c)
    }
}
