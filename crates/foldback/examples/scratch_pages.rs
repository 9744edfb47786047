//! Scratch.
mod data;
use foldback::prelude::*;

#[derive(Module)]
struct Network {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}
#[forward]
impl Network {
    fn forward(&self, x: &Var) -> Result<Var> {
        let h = self.l1.forward(x)?.relu();
        let h = self.l2.forward(&h)?.relu();
        self.l3.forward(&h)
    }
}
#[derive(Module)]
struct Block {
    qkv: Linear,
    proj: Linear,
    fc1: Linear,
    fc2: Linear,
    gain: Var,
    scale: Var,
}
#[forward]
impl Block {
    fn forward(&self, x: &Var) -> Result<Var> {
        let [b, t, _c] = x.sizes()?;
        let h = x * &self.gain;
        let heads = |v: &Var| v.reshape((b, t, 4usize, -1))?.transpose(1, 2);
        let [q, k, v] = self.qkv.forward(&h)?.chunks(-1)?;
        let (q, k, v) = (heads(&q)?, heads(&k)?, heads(&v)?);
        let scores = q.matmul(k.transpose(-2, -1)?)? * 0.35;
        let y = scores.softmax(-1)?.matmul(&v)?.transpose(1, 2)?.reshape((b, t, -1))?;
        let x = x + self.proj.forward(&y)?;
        let h = &x * &self.scale;
        let h = self.fc1.forward(&h)?.gelu();
        Ok(&x + self.fc2.forward(&h)?)
    }
}
#[derive(Module)]
struct Net {
    embed: Linear,
    blocks: Vec<Block>,
    head: Linear,
}
#[forward]
impl Net {
    fn forward(&self, x: &Var) -> Result<Var> {
        let mut h = self.embed.forward(x)?;
        for b in &self.blocks {
            h = b.forward(&h)?;
        }
        self.head.forward(&h.mean(1)?)
    }
}

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap();
    let write = |name: &str, plan: foldback::graph::BackwardPlan| {
        println!("{name}\n{}", plan.to_string().lines().take(40).collect::<Vec<_>>().join("\n"));
        std::fs::write(format!("{dir}/{name}.html"), plan.to_html()).unwrap();
        std::fs::write(format!("{dir}/{name}.dot"), plan.to_dot()).unwrap();
    };
    manual_seed(0);
    let (training, _) = data::load()?;
    let (images, labels) = (training.images.narrow(0, 0, 64)?, training.labels.narrow(0, 0, 64)?);
    let model = Network { l1: Linear::new(64, 128), l2: Linear::new(128, 64), l3: Linear::new(64, 10) };
    let loss = loss::cross_entropy(model.forward(&images)?, &labels)?;
    write("digits", loss.backward_plan()?.named(model.named_parameters()));
    write("unnamed", loss.backward_plan()?);

    let a = Tensor::rand([300, 1, 8]).requires_grad();
    let b = Tensor::rand([1, 200, 8]).requires_grad();
    let scale = Tensor::rand([8]).requires_grad();
    let pairs = ((&a - &b) * &scale).square();
    let pairs = pairs.sum(-1)?;
    let kernel = (-pairs).exp();
    let loss = (&kernel + &kernel.t().sum(0)?.unsqueeze(1)?).log().mean(..)?;
    write("pairs", loss.backward_plan()?.named([("a", &a), ("b", &b), ("scale", &scale)]));

    let block = || Block {
        qkv: Linear::new(32, 96),
        proj: Linear::new(32, 32),
        fc1: Linear::new(32, 128),
        fc2: Linear::new(128, 32),
        gain: Tensor::ones([32]).requires_grad(),
        scale: Tensor::ones([32]).requires_grad(),
    };
    let net = Net {
        embed: Linear::new(16, 32),
        blocks: (0..20).map(|_| block()).collect(),
        head: Linear::new(32, 10),
    };
    let x = Tensor::rand([8, 24, 16]);
    let labels = Tensor::from_vec((0..8i64).collect::<Vec<_>>(), [8])?;
    let loss = loss::cross_entropy(net.forward(&x)?, &labels)?;
    write("deep", loss.backward_plan()?.named(net.named_parameters()));
    write("deep-unnamed", loss.backward_plan()?);
    Ok(())
}
