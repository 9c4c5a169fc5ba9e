/* Moves and scales a group inside an svg: drag, two fingers, wheel with ctrl, buttons, fit. */

const LEAST = 0.15, MOST = 3;

/* Whoever makes it sets its view, the group, and size: {width, height} of that, asked for when it is fitted. */
export class PanZoom {
    constructor(stage) {
        this.stage = stage;
        this.x = this.y = 0;
        this.k = 1;
        this.pointers = new Map();
        stage.addEventListener('wheel', (event) => this.onWheel(event), {passive: false});
        stage.addEventListener('pointerdown', (event) => this.onDown(event));
        stage.addEventListener('pointermove', (event) => this.onMove(event));
        for (const end of ['pointerup', 'pointercancel', 'pointerleave'])
            stage.addEventListener(end, (event) => this.onUp(event));
    }

    apply() {
        this.view.setAttribute('transform', `translate(${this.x} ${this.y}) scale(${this.k})`);
    }

    room() {
        return {width: this.stage.clientWidth || 1, height: this.stage.clientHeight || 1};
    }

    /* All of it, never larger than life; at most so small that names can be read. */
    fit(least = LEAST) {
        const {width, height} = this.room();
        const k = Math.min(1, width / this.size.width, height / this.size.height);

        this.k = Math.max(least, k);
        this.x = Math.max(0, (width - this.size.width * this.k) / 2);
        this.y = Math.max(0, (height - this.size.height * this.k) / 2);
        this.apply();
        return this.k === k;
    }

    zoom(factor, cx = this.room().width / 2, cy = this.room().height / 2) {
        const k = Math.min(MOST, Math.max(LEAST, this.k * factor));

        this.x = cx - (cx - this.x) * k / this.k;
        this.y = cy - (cy - this.y) * k / this.k;
        this.k = k;
        this.apply();
    }

    /* Brings a rectangle of the content into view, moving no more than needed. */
    reveal(box, margin = 24) {
        const {width, height} = this.room();
        const left = box.x * this.k + this.x, top = box.y * this.k + this.y;
        const right = left + box.w * this.k, bottom = top + box.h * this.k;

        this.x += left < margin ? margin - left : right > width - margin ? width - margin - right : 0;
        this.y += top < margin ? margin - top : bottom > height - margin ? height - margin - bottom : 0;
        this.apply();
    }

    onWheel(event) {
        if (!event.ctrlKey && !event.metaKey)
            return;
        const at = this.stage.getBoundingClientRect();

        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * 0.0025), event.clientX - at.left, event.clientY - at.top);
    }

    onDown(event) {
        if (event.button !== 0)
            return;
        this.pointers.set(event.pointerId, {x: event.clientX, y: event.clientY});
        this.moved = 0;
    }

    onMove(event) {
        const was = this.pointers.get(event.pointerId);

        if (was === undefined)
            return;
        const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, p]) => p);

        if (others.length > 0) {
            const [o] = others, at = this.stage.getBoundingClientRect();
            const before = Math.hypot(was.x - o.x, was.y - o.y), after = Math.hypot(event.clientX - o.x, event.clientY - o.y);

            if (before > 0)
                this.zoom(after / before, (event.clientX + o.x) / 2 - at.left, (event.clientY + o.y) / 2 - at.top);
        } else {
            this.x += event.clientX - was.x;
            this.y += event.clientY - was.y;
            this.apply();
        }
        this.moved += Math.abs(event.clientX - was.x) + Math.abs(event.clientY - was.y);
        if (this.moved > 4 && !this.stage.hasPointerCapture(event.pointerId)) {
            this.stage.setPointerCapture(event.pointerId);
            this.stage.classList.add('dragging');
        }
        this.pointers.set(event.pointerId, {x: event.clientX, y: event.clientY});
    }

    onUp(event) {
        this.pointers.delete(event.pointerId);
        this.stage.classList.remove('dragging');
    }

    /* Whether the press that ends now moved the picture: then it is no click. */
    dragged() {
        return this.moved > 4;
    }
}
