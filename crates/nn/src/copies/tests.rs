//! Modules of another type, and with other parameters.

use foldback_graph::{RequiresGrad, Var};
use foldback_tensor::{DType, Tensor, tensor};

use crate::{Buffer, Layer, Linear, Module, ReLU, sequential};

/// A table used twice, a constant, what is computed, and buffers of two types.
#[derive(Module)]
struct Mixed {
    encode: Var,
    decode: Var,
    fixed: Var,
    computed: Var,
    mean: Buffer,
    count: Buffer,
}

impl Mixed {
    fn new() -> Mixed {
        let table = tensor![1.0, 2.0].requires_grad();
        Mixed {
            encode: table.clone(),
            decode: table.clone(),
            fixed: tensor![3.0].into(),
            computed: &table * 2,
            mean: Buffer::new(tensor![0.1]),
            count: Buffer::new(tensor![7; i64]),
        }
    }
}

#[test]
fn a_converted_module_has_weights_of_its_own() {
    let mut model = Mixed::new();
    model.decode.requires_grad_(false).unwrap();
    let precise = model.to(DType::F64).unwrap();
    assert!(precise.encode.is_same(&precise.decode) && !precise.encode.requires_grad());
    assert_eq!(precise.encode.value(), tensor![1.0, 2.0; f64]);
    assert_eq!(precise.fixed.value(), tensor![3.0; f64]);
    assert_eq!(precise.computed.dtype(), DType::F64);
    assert!(!precise.computed.is_leaf());
    assert_eq!(precise.mean.value(), tensor![0.1f32].double());
    assert_eq!(precise.count.value(), tensor![7; i64]);
    assert_eq!((model.encode.dtype(), model.mean.value().dtype()), (DType::F32, DType::F32));
    // In the same type it is a copy, too.
    let same = precise.double();
    assert!(!same.encode.is_same(&precise.encode) && !same.mean.is_same(&precise.mean));
    assert_eq!(same.float().encode.value(), model.encode.value());
    assert!(model.float().encode.is_leaf());
    let e = model.to(DType::Bool).map(|_| ()).unwrap_err().with_location(None).to_string();
    assert_eq!(e, "to: the type of a module must be f32 or f64, found bool: use to(DType::F32)");
    // What stands behind a box, too.
    let boxed: Box<dyn Layer> = Box::new(Linear::new(2, 1));
    assert_eq!(boxed.double().forward(&tensor![1.0, 2.0; f64]).unwrap().dtype(), DType::F64);
}

#[test]
fn other_parameters_stand_at_every_place() {
    let model = Mixed::new();
    let shift = tensor![10.0, 20.0].requires_grad();
    let moved = model.with_parameters([("decode", &model.encode + &shift)]).unwrap();
    assert!(moved.encode.is_same(&moved.decode) && moved.mean.is_same(&model.mean));
    assert!(moved.computed.is_same(&model.computed));
    moved.encode.sum(..).unwrap().backward().unwrap();
    assert_eq!((shift.grad(), model.encode.grad()), (Some(tensor![1.0, 1.0]), Some(tensor![1.0, 1.0])));
    assert_eq!(model.encode.value(), tensor![1.0, 2.0]);

    let text = |parameters: &[(&str, Tensor)]| {
        let e = model.with_parameters(parameters.iter().cloned()).map(|_| ()).unwrap_err();
        e.with_location(None).to_string()
    };
    assert_eq!(
        text(&[("fixed", tensor![1.0]), ("encode", tensor![1.0])]),
        "with_parameters: unexpected: fixed; not fitting: encode (expected [2], found [1]): name them as \
         named_parameters() does, each in the shape that it has there"
    );
    // A buffer of its own.
    let moved = model.with_parameters([("mean", tensor![0.5])]).unwrap();
    assert_eq!((moved.mean.value(), model.mean.value()), (tensor![0.5], tensor![0.1]));
    // Of two names of one variable the last counts; what replaces has a name again.
    let (one, two) = (tensor![1.0, 1.0], tensor![2.0, 2.0]);
    let twice = model.with_parameters([("encode", &one), ("decode", &two)]).unwrap();
    assert_eq!(twice.encode.value(), two);
    assert_eq!(twice.state_dict().get("encode"), Some(&two));
    assert!(!twice.encode.requires_grad() && twice.encode.is_same(&twice.decode));
    assert_eq!(twice.with_parameters([("encode", &one)]).unwrap().decode.value(), one);
    assert!(model.with_parameters([("mean", tensor![1.0; f64])]).is_err());
    assert!(model.with_parameters([("encode", tensor![1, 1; i64])]).is_err());
    assert!(foldback_graph::no_grad(|| model.double()).computed.requires_grad());
    // A whole state by its names, of tensors, through lists and boxes.
    let (a, b) = (sequential![Linear::new(2, 3), ReLU], sequential![Linear::new(2, 3), ReLU]);
    let as_b = a.with_parameters(b.state_dict()).unwrap();
    let x = tensor![[1.0, -2.0]];
    assert_eq!(as_b.forward(&x).unwrap().value(), b.forward(&x).unwrap().value());
}
