//! What kind of refusal each fact is, for programs that look.

use foldback_tensor::{Facts, Kind};

use super::GraphFacts;

impl Facts for GraphFacts {
    fn kind(&self) -> Kind {
        use GraphFacts::*;
        match self {
            Backward { source, .. } => source.kind(),
            NotScalar { .. } | SeedShape { .. } | Direction { .. } | NotANumber { .. } => Kind::Shape,
            DTypeWithoutGrad { .. } | ArgumentDType { .. } => Kind::DType,
            Assigned { expected_shape, found_shape, .. } if expected_shape == found_shape => Kind::DType,
            Assigned { .. } => Kind::Shape,
            SeedCount { .. } | SeedsNotBatched | DirectionCount { .. } | Empty { .. } | InputsTwice => {
                Kind::Argument
            }
            TooDeep { .. } => Kind::Io,
            GradientShape { .. }
            | GradientCount { .. }
            | NotFinite { .. }
            | GivenNotFinite { .. }
            | CheckpointChanged { .. }
            | Growing { .. }
            | Freed { .. }
            | NoGraph { .. }
            | OutputCount { .. } => Kind::Graph,
            HookGradients { .. } | HookOnResult { .. } | HookWithoutGrad { .. } | NoPass => Kind::Graph,
            RetainWithoutGrad
            | Unused { .. }
            | InputWithoutGrad { .. }
            | NotALeaf { .. }
            | LeafInPlace { .. } => Kind::Graph,
            OnceDifferentiable { .. } | NoDerivative { .. } | NoForward { .. } | Updating { .. } => {
                Kind::Graph
            }
        }
    }

    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(self)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use foldback_tensor::{DType, Error, Shape, TensorFacts};

    use super::*;

    #[test]
    fn every_fact_has_a_kind() {
        use GraphFacts::*;
        let (op, location, s) = ("mul", Location::caller(), || Shape::from(2));
        let assigned = |expected_shape, expected_dtype| Assigned {
            what: "grad".into(),
            expected_shape,
            expected_dtype,
            found_shape: s(),
            found_dtype: DType::F32,
        };
        let source = || Error::from(TensorFacts::NoTensors { op });
        let all = [
            (GradientShape { op, input: 0, expected: s(), found: s(), location }, Kind::Graph),
            (GradientCount { op, expected: 1, found: 2, location }, Kind::Graph),
            (Backward { op, location, source: source() }, Kind::Argument),
            (Freed { op, location }, Kind::Graph),
            (
                NotFinite {
                    op,
                    input: 0,
                    found: "NaN".into(),
                    location,
                    derivative_of: String::new(),
                    not_taken: false,
                },
                Kind::Graph,
            ),
            (CheckpointChanged { what: "its results are others".into(), location }, Kind::Graph),
            (Growing { op, nodes: 2, location }, Kind::Graph),
            (GivenNotFinite { what: "the seed".into(), op, found: "NaN".into(), location }, Kind::Graph),
            (NotScalar { op: "op", shape: s() }, Kind::Shape),
            (NoGraph { op: "op", index: 0, cause: String::new() }, Kind::Graph),
            (SeedShape { op: "op", index: 0, seed: s(), output: s() }, Kind::Shape),
            (SeedCount { op: "op", expected: 1, found: 2 }, Kind::Argument),
            (OutputCount { op, expected: 1, found: 2 }, Kind::Graph),
            (SeedsNotBatched, Kind::Argument),
            (ArgumentDType { op, index: 0, dtype: DType::I64 }, Kind::DType),
            (DirectionCount { op, what: "argument", expected: 1, found: 2 }, Kind::Argument),
            (
                Direction { op, what: "argument", index: 0, expected: s(), found: s(), dtype: DType::I64 },
                Kind::Shape,
            ),
            (NotANumber { op, found: "2 outputs".into() }, Kind::Shape),
            (NoForward { op, location }, Kind::Graph),
            (Empty { op, what: "roots" }, Kind::Argument),
            (InputsTwice, Kind::Argument),
            (HookWithoutGrad { op }, Kind::Graph),
            (HookOnResult { op }, Kind::Graph),
            (
                HookGradients { op, hook: "pre-hook", registered: location, expected: 1, found: 2, location },
                Kind::Graph,
            ),
            (NoPass, Kind::Graph),
            (RetainWithoutGrad, Kind::Graph),
            (Unused { index: 0 }, Kind::Graph),
            (InputWithoutGrad { op: "op", index: 0 }, Kind::Graph),
            (DTypeWithoutGrad { dtype: DType::I64 }, Kind::DType),
            (NotALeaf { op }, Kind::Graph),
            (LeafInPlace { op }, Kind::Graph),
            (assigned(Shape::from(3), DType::F32), Kind::Shape),
            (assigned(s(), DType::F64), Kind::DType),
            (OnceDifferentiable { op, location }, Kind::Graph),
            (NoDerivative { op, location }, Kind::Graph),
            (Updating { op }, Kind::Graph),
            (TooDeep { source: std::io::Error::other("no thread") }, Kind::Io),
        ];
        for (facts, kind) in all {
            let e = Error::from(facts);
            assert_eq!(e.kind(), kind, "{e}");
        }
        let e = Error::from(Backward { op, location, source: source() });
        let inner = std::error::Error::source(&e).and_then(|e| e.downcast_ref::<Error>());
        assert_eq!(*inner.expect("it has a source"), TensorFacts::NoTensors { op });
    }
}
