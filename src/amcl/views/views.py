"""The class that makes random views of each image."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from amcl.settings import whole_number
from amcl.views import boxes, operations
from amcl.views.parameters import ViewParameters
from amcl.views.settings import ViewSettings, numbers

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CPU_CHUNK = 2**20  # values that a CPU works on at once: few enough for its cache
_DEFAULTS = ViewSettings()


class Views:
    """Random views of each image in a batch, two by default, made on the device of the images.

    Crop, flip, jitter, grayscale, blur, solarize, in this order, then (x − mean) / std. All
    randomness lies in `draw`: the same generator gives the same views on every device, and a part
    of the batch gives that part of the views, bit for bit on a CPU. Each operation draws whether
    it is on or not, so switching one off leaves the randomness of the others as it was.

    - `size`: of the views, in pixels;
    - `mean`, `std`: of the channels, for images in [0, 1]; those of ImageNet unless given;
    - `count`: number of views of each image. Of settings that differ between the first and the
      second view, further views have those of the second.

    >>> views = Views(size=32)
    >>> parameters = views.draw(8, generator=torch.Generator().manual_seed(0))
    >>> images = torch.randint(256, (8, 3, 40, 48), dtype=torch.uint8)
    >>> views(images, parameters).shape
    torch.Size([2, 8, 3, 32, 32])
    >>> views(images).shape  # draws by itself
    torch.Size([2, 8, 3, 32, 32])
    """

    def __init__(
        self,
        size: int,
        settings: ViewSettings = _DEFAULTS,
        *,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        count: int = 2,
    ) -> None:
        self.size, self.settings = whole_number("size", size), settings
        self.count = whole_number("count", count)
        self.taps = settings.blur_kernel or max(3, size // 10 | 1)
        if "b" in settings.operations and self.taps // 2 >= size:
            raise ValueError(
                f"A blur of {self.taps} pixels is too wide for views of size = {size}: lower "
                "blur_kernel, or leave 'b' out of views."
            )
        mean, std = numbers("mean", mean, 3), numbers("std", std, 3)
        if min(std) <= 0:
            raise ValueError(f"std must be above 0 in each channel, got {std}.")
        self._factor = 1 / torch.tensor(std).view(3, 1, 1)
        self._offset = -torch.tensor(mean).view(3, 1, 1) * self._factor

    def draw(
        self, n: int, *, generator: torch.Generator, shapes: torch.Tensor | None = None
    ) -> ViewParameters:
        """Draw the views of n images from a generator on the CPU.

        shapes: (n, 2), original heights and widths, for images that are stored squashed to another
        shape; the ratio of a crop is that in the original. Without it they count as square.
        """
        if generator.device.type != "cpu":
            raise ValueError(
                f"draw needs a generator on the CPU, got one on {generator.device}: the same seed "
                "then gives the same views on every device."
            )
        s = self.settings
        views = self.count
        uniform = torch.rand(5, views, n, generator=generator)
        strength = torch.rand(views, n, 4, generator=generator)
        order = torch.rand(views, n, 4, generator=generator).argsort(-1)
        sigma = torch.rand(views, n, generator=generator) * (s.blur_sigma[1] - s.blur_sigma[0])
        # Boxes take as many numbers as they need: from a generator of their own.
        seed = int(torch.randint(2**62, (), generator=generator))
        cuts = self._draw_boxes(n, shapes, torch.Generator().manual_seed(seed))

        def happens(row: int, letter: str, p: float | tuple[float, float]) -> torch.Tensor:
            first, second = p if isinstance(p, tuple) else (p, p)
            limits = torch.tensor([first, *[second] * (views - 1)]).view(-1, 1)
            return (uniform[row] < limits) & (letter in s.operations)

        return ViewParameters(
            boxes=cuts,
            flip=happens(0, "e", s.flip_p),
            jitter=self._factors(strength, happens(1, "d", s.jitter_p)),
            order=order,
            gray=happens(2, "c", s.gray_p),
            sigma=(sigma + s.blur_sigma[0]) * happens(3, "b", s.blur_p),
            solarize=happens(4, "s", s.solarize_p),
        )

    def __call__(
        self,
        images: torch.Tensor,
        parameters: ViewParameters | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """The views (count, N, 3, size, size) of uint8 images (N, 3, H, W), float32, normalized.

        With `parameters.first()` there is one view, (1, N, 3, size, size). Without parameters they
        are drawn from `generator`, or from torch's global random numbers.
        """
        if parameters is None:
            if generator is None:
                seed = int(torch.randint(2**62, (), device="cpu"))
                generator = torch.Generator().manual_seed(seed)
            parameters = self.draw(len(images), generator=generator)
        elif generator is not None:
            raise ValueError("give parameters, which are drawn already, or a generator, not both.")
        if len(parameters) != len(images):
            raise ValueError(
                f"{len(images)} images came with the parameters of {len(parameters)}: draw as "
                "many, or take a part with parameters.rows(start, stop)."
            )
        p = parameters
        return self._in_chunks(images, p.boxes, p.flip, lambda x, part: self._color(x, p.of(part)))

    def plain(
        self,
        images: torch.Tensor,
        shapes: torch.Tensor | None = None,
        crop: float | None = None,
    ) -> torch.Tensor:
        """uint8 images (N, 3, H, W) for a test: resized to (N, 3, size, size) and normalized.

        crop: the share of the shorter side that a central square takes, in the true shapes (N, 2)
        of images that are stored squashed; None takes all of the image as it is stored.
        """
        n = len(images)
        cuts = boxes.whole(n) if crop is None else boxes.central(n, shapes, crop)
        return self._in_chunks(images, cuts[None], torch.zeros(1, n, dtype=torch.bool)).squeeze(0)

    def __repr__(self) -> str:
        return f"Views(size={self.size}, {self.settings})"

    @torch.no_grad()
    def _in_chunks(
        self,
        images: torch.Tensor,
        cuts: torch.Tensor,
        flip: torch.Tensor,
        color: Callable[[torch.Tensor, slice], torch.Tensor] = lambda x, part: x,
    ) -> torch.Tensor:
        """Views (V, N, 3, size, size) from boxes (V, N, 4): cut, colored, normalized."""
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise ValueError(
                f"images must be uint8 of shape (N, 3, H, W), got {images.dtype} of shape "
                f"{tuple(images.shape)}: keep images as they are stored, 0 … 255, channels first."
            )
        (count, n), device = flip.shape, images.device
        _, _, height, width = images.shape
        step = max(1, n)
        if device.type == "cpu":
            step = max(1, _CPU_CHUNK // (3 * max(count * self.size**2, height * width)))
        rows, columns = operations.crop_taps(
            cuts.to(device), flip.to(device), (height, width), self.size
        )
        factor, offset = self._factor.to(device), self._offset.to(device)
        out = torch.empty(count, n, 3, self.size, self.size, device=device)
        for start in range(0, n, step):
            part = slice(start, start + step)
            x = operations.crop(operations.planes(images[part]), rows.of(part), columns.of(part))
            x = color(x, part).view(3, count, -1, self.size, self.size)
            torch.addcmul(offset, x.permute(1, 2, 0, 3, 4), factor, out=out[:, part])
        return out

    def _color(self, x: torch.Tensor, p: ViewParameters) -> torch.Tensor:
        """Jitter, grayscale, blur and solarize of the views (3, 2n, size, size); in place."""
        if "d" in self.settings.operations:
            operations.jitter(x, p.jitter.flatten(0, 1), p.order.flatten(0, 1))
        sigma, threshold = p.sigma.flatten(), self.settings.solarize_threshold
        gray, blurred, inverted = (
            where.flatten().nonzero().squeeze(1) for where in (p.gray, p.sigma, p.solarize)
        )
        operations.change(x, gray, operations.drop_color)
        blur = partial(operations.blur, sigma=sigma[blurred], taps=self.taps)
        operations.change(x, blurred, blur)
        return operations.change(x, inverted, partial(operations.solarize, threshold=threshold))

    def _draw_boxes(
        self, n: int, shapes: torch.Tensor | None, generator: torch.Generator
    ) -> torch.Tensor:
        s, shapes = self.settings, torch.ones(n, 2) if shapes is None else shapes
        if shapes.shape != (n, 2) or not (shapes > 0).all():
            raise ValueError(
                f"shapes must be ({n}, 2), a height and a width above 0 for each image, got "
                f"{tuple(shapes.shape)}: give the shapes of the {n} pictures, or None."
            )
        if "a" not in s.operations:
            return boxes.whole(n).expand(self.count, -1, -1)
        draw = boxes.Draw(shapes, s.crop_scale, s.crop_ratio, generator)
        if self.count != 2:
            return torch.stack([draw.boxes() for _ in range(self.count)])
        return draw.pair(s.min_overlap) if s.overlap is None else draw.pair_sharing(s.overlap)

    def _factors(self, strength: torch.Tensor, happens: torch.Tensor) -> torch.Tensor:
        """Jitter factors (2, n, 4), uniform in torchvision's ranges, from numbers in [0, 1]."""
        neutral, most = torch.tensor([1.0, 1.0, 1.0, 0.0]), torch.tensor(self.settings.jitter)
        low = torch.where(neutral == 0, -most, (neutral - most).clamp_min(0))
        return torch.where(happens[..., None], low.lerp(neutral + most, strength), neutral)
