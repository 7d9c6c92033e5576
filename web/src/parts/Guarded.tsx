// One entry that cannot be shown does not take the page with it.
import { Component, type ComponentChildren } from 'preact';

interface Props {
  /** Shown in the place of what failed. */
  instead: ComponentChildren;
  children: ComponentChildren;
}

export class Guarded extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static override getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override componentDidCatch(error: unknown): void {
    console.warn('An entry cannot be shown:', error);
  }

  render() {
    return this.state.failed ? this.props.instead : this.props.children;
  }
}
