//! `Packed`: a tensor put away small, for graphs that keep very many.

use crate::buffer::{Handle, Holding};
use crate::shape::Shape;
use crate::tensor::{Layout, Tensor};

/// A tensor that is kept for later, in 24 bytes if it is row-major, of a shape that its keeper remembers anyway, and without an
/// axis that was made on purpose.
///
/// What a graph saves for its backward pass is mostly of the shape of an operation's result.
///
/// ```
/// use foldback_tensor::{Packed, Shape, tensor};
/// let shape = Shape::from([2, 2]);
/// let kept = Packed::new(&tensor![[1.0, 2.0], [3.0, 4.0]], &shape);
/// assert_eq!(std::mem::size_of::<Packed>(), 24);
/// assert_eq!(kept.unpack(&shape), tensor![[1.0, 2.0], [3.0, 4.0]]);
/// ```
#[derive(Clone)]
pub struct Packed {
    storage: Handle,
    /// `None`: row-major, of the shape that the keeper remembers
    layout: Option<Box<Layout>>,
}

impl Packed {
    /// Puts a tensor away; `like` is the shape that will be at hand when it is wanted back.
    #[inline]
    pub fn new(t: &Tensor, like: &Shape) -> Packed {
        let Tensor { storage, layout } = t;
        let same = layout.own_strides().is_none() && layout.meant.is_none() && layout.shape == *like;
        let layout = if same { None } else { apart(layout) };
        // Last, so that it is put together where it stays.
        Packed { storage: storage.clone(), layout }
    }

    /// The shape, where `like` is the one that it was packed with.
    ///
    /// ```
    /// use foldback_tensor::{Packed, Shape, tensor};
    /// let like = Shape::from([2, 2]);
    /// assert_eq!(Packed::new(&tensor![1.0, 2.0], &like).shape(&like), &[2]);
    /// ```
    pub fn shape<'a>(&'a self, like: &'a Shape) -> &'a Shape {
        self.layout.as_ref().map_or(like, |layout| &layout.shape)
    }

    /// What it holds in memory; none if that is a single number.
    #[doc(hidden)]
    pub fn holding(&self) -> Option<Holding> {
        self.storage.holding()
    }

    /// The tensor. `like` must be the shape that it was packed with.
    ///
    /// # Panics
    /// If `like` is a shape of more elements than were packed.
    pub fn unpack(self, like: &Shape) -> Tensor {
        let mut place = None;
        Packed::unpack_to(&mut Some(self), like, &mut place);
        place.expect("it was put there")
    }

    /// The same of one that is taken from its place, put together in that of the tensor, where there is none yet: a tensor that is moved is waited
    /// for, see Note [Whole words]. The backward pass of W8 takes 0.95 of the time.
    #[doc(hidden)]
    #[inline(always)]
    pub fn unpack_to(packed: &mut Option<Packed>, like: &Shape, place: &mut Option<Tensor>) {
        let Some(own) = packed else { return };
        if own.layout.is_some() {
            *place = unpacked_apart(packed.take());
            return;
        }
        // What may fail comes first: what would have to be dropped then lies in memory, and not in registers.
        assert!(like.numel() <= own.storage.len(), "unpacked with the shape it was packed with");
        let layout = Layout::row_major(like.clone());
        if let Some(Packed { storage, .. }) = packed.take() {
            place.get_or_insert_with(|| Tensor { storage, layout });
        }
    }
}

/// One with a layout of its own.
#[inline(never)]
fn unpacked_apart(packed: Option<Packed>) -> Option<Tensor> {
    let Packed { storage, layout } = packed?;
    Some(Tensor { storage, layout: *layout? })
}

/// A layout in memory of its own. Not compiled into those that pack, most of which do without.
#[inline(never)]
fn apart(layout: &Layout) -> Option<Box<Layout>> {
    Some(Box::new(layout.clone()))
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;

    #[test]
    fn every_layout_comes_back_as_it_was() {
        let t = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let views = [
            t.clone(),
            t.t(),
            t.narrow(0, 1, 1).unwrap(),
            t.narrow(1, 1, 2).unwrap(),
            t.narrow(0, 0, 1).unwrap().expand([4, 3]).unwrap(),
            t.flip([0]).unwrap(),
            t.reshape([6]).unwrap(),
        ];
        for like in [Shape::from([2, 3]), Shape::from([3, 2]), Shape::scalar(), Shape::from([1, 3])] {
            for v in &views {
                let back = Packed::new(v, &like).unpack(&like);
                assert_eq!(back, *v);
                assert_eq!((back.strides(), back.overlaps_itself()), (v.strides(), v.overlaps_itself()));
                assert!(back.shares_buffer_with(v));
            }
        }
    }
}
